"""Spec of connectors to HashiCorp Vault."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from django.conf import settings

from connectors.specs.base import ConnectorSpec, build_spec_problem
from guards.address_policy import PRIVATE_ALLOWED
from guards.urls import describe_url_problem
from web.http.client import get_outgoing_reach

VAULT_TOKEN, APP_ROLE, AWS_IAM = "Token", "AppRole", "Aws"
_MAX_URL_CHARACTERS: Final = 500
_PATH = re.compile(r"[\w.-]{1,100}(/[\w.-]{1,100}){0,9}\Z", re.ASCII)
_NAME = re.compile(r"[\w.@:-]{1,200}\Z", re.ASCII)


@dataclass(frozen=True)
class VaultSpec(ConnectorSpec):
    """Spec of a connector to Vault.

    `url` is the server's address, `mount` the path of a KV 2 engine. `login_mount` is the path of the login
    method, by default its usual one. `role_id` belongs to AppRole, `role` and `server_id` to AWS.
    """

    url: str = ""
    namespace: str = ""
    mount: str = "secret"
    authentication: str = VAULT_TOKEN
    login_mount: str = ""
    role_id: str = ""
    role: str = ""
    server_id: str = ""

    @property
    def needs_secret(self) -> bool:
        """Return whether a token or a secret ID takes part."""
        return self.authentication != AWS_IAM


def parse_vault_spec(spec: Mapping[str, Any]) -> VaultSpec:
    """Return the spec of a connector without unknown keys; `find_vault_spec_problems` reports those."""
    return VaultSpec.from_json(spec)


def find_vault_spec_problems(spec: Mapping[str, Any], *, has_secret: bool) -> list[dict[str, str]]:
    """Return the problems of a spec, each as {"path", "message"}."""
    if problems := VaultSpec.find_shape_problems(spec):
        return problems
    read = parse_vault_spec(spec)
    return [*_find_location_problems(read), *_find_login_problems(read, has_secret)]


def _find_location_problems(spec: VaultSpec) -> Iterator[dict[str, str]]:
    yield from spec.find_route_problems()
    if not spec.url:
        yield build_spec_problem("url", "Enter the address, such as https://vault.example.com:8200.")
    elif len(spec.url) > _MAX_URL_CHARACTERS:
        yield build_spec_problem("url", f"The address must have at most {_MAX_URL_CHARACTERS} characters.")
    elif why := _describe_url_problem(spec):
        yield build_spec_problem("url", f"This address cannot be used: {why}.")
    for name, path in (
        ("namespace", spec.namespace),
        ("mount", spec.mount),
        ("login_mount", spec.login_mount),
    ):
        if path and (not _PATH.match(path.strip("/")) or has_relative_part(path)):
            yield build_spec_problem(name, "Enter a path of letters, digits and . _ - between slashes.")


def _describe_url_problem(spec: VaultSpec) -> str:
    if why := describe_url_problem(spec.url, PRIVATE_ALLOWED if spec.is_remote else get_outgoing_reach()):
        return why
    parts = urlsplit(spec.url)
    if parts.scheme not in ("https", "http"):
        return "it must start with https:// or http://"
    return "enter it without a query" if parts.query or parts.fragment else ""


def _find_login_problems(spec: VaultSpec, has_secret: bool) -> Iterator[dict[str, str]]:
    if spec.authentication not in (VAULT_TOKEN, APP_ROLE, AWS_IAM):
        yield build_spec_problem("authentication", f"Use {VAULT_TOKEN}, {APP_ROLE} or {AWS_IAM}.")
    elif spec.needs_secret and not has_secret:
        yield build_spec_problem("secret", "This login needs a secret: create one and select it.")
    if spec.authentication == APP_ROLE and not _NAME.match(spec.role_id):
        yield build_spec_problem("role_id", "Enter the role ID of the AppRole.")
    if spec.authentication == AWS_IAM:
        yield from _find_aws_login_problems(spec)
    if spec.authentication != APP_ROLE and spec.role_id:
        yield build_spec_problem("role_id", "A role ID requires AppRole.")
    if spec.authentication != AWS_IAM and (spec.role or spec.server_id):
        yield build_spec_problem("role", "A role and a server ID require Aws.")


def _find_aws_login_problems(spec: VaultSpec) -> Iterator[dict[str, str]]:
    if not settings.ALLOW_MANAGER_CREDENTIALS:
        yield build_spec_problem(
            "authentication",
            "This installation does not allow the use of its own AWS credentials, with which it would log "
            "in: use AppRole, or set SLIPWAY_ALLOW_MANAGER_CREDENTIALS.",
        )
    if not _NAME.match(spec.role):
        yield build_spec_problem("role", "Enter the name of the role of Vault's AWS login.")
    if spec.server_id and not _NAME.match(spec.server_id):
        yield build_spec_problem("server_id", "Use 1 to 200 letters, digits and . _ @ : -.")


def has_relative_part(path: str) -> bool:
    """Return whether a path has an empty part, `.` or `..`, which servers resolve differently."""
    return any(part in ("", ".", "..") for part in path.strip("/").split("/"))
