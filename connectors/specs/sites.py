"""Spec of connectors to Git servers, Docker registries and Terraform Cloud."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from connectors.models import Connector
from connectors.specs.aws import AwsSpec, find_aws_spec_problems, parse_aws_spec
from connectors.specs.base import ConnectorSpec, build_spec_problem
from connectors.specs.vault import VaultSpec, find_vault_spec_problems, parse_vault_spec
from guards.address_policy import PRIVATE_ALLOWED
from guards.host_keys import InvalidHostKey, parse_host_keys
from guards.urls import describe_url_problem
from web.http.client import get_outgoing_reach

ANONYMOUS, PASSWORD, SSH_KEY = "Anonymous", "UsernamePassword", "SshKey"
TOKEN: Final = "Token"  # noqa: S105 - the way, not one
_AUTHENTICATION_TYPES: Final = {
    Connector.Kind.GIT: (ANONYMOUS, PASSWORD, SSH_KEY),
    Connector.Kind.DOCKER_REGISTRY: (ANONYMOUS, PASSWORD),
    Connector.Kind.TERRAFORM_CLOUD: (TOKEN,),
}
_MISSING_URL_MESSAGES: Final = {
    Connector.Kind.GIT: "Enter the URL of a repository or of an account.",
    Connector.Kind.DOCKER_REGISTRY: "Enter the URL of the registry.",
    Connector.Kind.TERRAFORM_CLOUD: "Enter the URL, such as https://app.terraform.io.",
}
_REPOSITORY = re.compile(r"[\w][\w.~/-]{0,254}\Z", re.ASCII)
_USERNAME = re.compile(r"[^\s:@/\x00-\x1f]{1,255}\Z")
_SCP_STYLE_URL = re.compile(r"(?:([\w.-]+)@)?([\w.-]+):(?!//|:)(.+)\Z", re.ASCII)
MAX_URL_CHARACTERS: Final = 500


@dataclass(frozen=True)
class SiteSpec(ConnectorSpec):
    """Spec of a connector to a Git server, a registry or Terraform Cloud.

    `url` is one repository, or an account whose repositories manifests name. `test_repository` is the
    repository for testing an account. `host_key` has the public keys of an SSH server, one per line.
    """

    url: str = ""
    authentication: str = ANONYMOUS
    username: str = ""
    test_repository: str = ""
    host_key: str = ""

    @property
    def needs_secret(self) -> bool:
        """Return whether a password, a token or a key takes part."""
        return self.authentication != ANONYMOUS

    def build_url(self, repository: str = "") -> str:
        """Return the URL of a repository of the account, or the connector's own URL."""
        return f"{self.url.rstrip('/')}/{repository.strip('/')}" if repository else self.url


def parse_site_spec(spec: Mapping[str, Any]) -> SiteSpec:
    """Return the spec of a connector without unknown keys; `find_site_spec_problems` reports those."""
    return SiteSpec.from_json(spec)


def find_site_spec_problems(kind: str, spec: Mapping[str, Any], *, has_secret: bool) -> list[dict[str, str]]:
    """Return the problems of a spec, each as {"path", "message"}."""
    if problems := SiteSpec.find_shape_problems(spec):
        return problems
    read = parse_site_spec(spec)
    entrance = [*_find_authentication_problems(kind, read, has_secret), *_find_host_key_problems(read)]
    return [*_find_location_problems(kind, read), *entrance]


def describe_repository_problem(name: str) -> str:
    """Return the problem of a repository name below an account's URL, or an empty text."""
    if _REPOSITORY.match(name) and ".." not in name and "//" not in name:
        return ""
    return "is not the name of a repository: letters, digits and . _ - ~ / such as team/app.git"


def _find_location_problems(kind: str, spec: SiteSpec) -> Iterator[dict[str, str]]:
    if why := _describe_url_problem(kind, spec):
        yield build_spec_problem("url", why)
    if spec.test_repository and kind == Connector.Kind.TERRAFORM_CLOUD:
        yield build_spec_problem("test_repository", "Terraform Cloud has no repositories: leave this empty.")
    elif spec.test_repository and (why := describe_repository_problem(spec.test_repository)):
        yield build_spec_problem("test_repository", f"This {why}.")
    yield from spec.find_route_problems()


def _describe_url_problem(kind: str, spec: SiteSpec) -> str:
    is_git = kind == Connector.Kind.GIT
    if not spec.url:
        return _MISSING_URL_MESSAGES[Connector.Kind(kind)]
    if len(spec.url) > MAX_URL_CHARACTERS:
        return f"The URL must have at most {MAX_URL_CHARACTERS} characters."
    scheme = get_url_scheme(spec.url)
    if not scheme and "://" in spec.url:
        return "This URL cannot be read: check its host."
    if scheme == "ssh" and is_git:
        return _describe_ssh_problem(spec.url)
    if scheme not in ("https", "http"):
        return f"The URL must start with https://{', http:// or ssh://' if is_git else ' or http://'}."
    if why := describe_url_problem(spec.url, PRIVATE_ALLOWED if spec.is_remote else get_outgoing_reach()):
        return f"This URL cannot be used: {why}."
    return ""


def normalize_ssh_url(url: str) -> str:
    """Return an address of SSH in its long form."""
    short = _SCP_STYLE_URL.match(url) if "://" not in url else None
    return f"ssh://{short[1] or 'git'}@{short[2]}/{short[3]}" if short else url


def get_url_scheme(url: str) -> str:
    """Return the protocol of a URL, or an empty text if it has none; user@host:path is SSH's short form."""
    if "://" not in url:
        return "ssh" if _SCP_STYLE_URL.match(url) else ""
    try:
        return urlsplit(url).scheme
    except ValueError:
        return ""


def _describe_ssh_problem(url: str) -> str:
    try:
        parts = urlsplit(normalize_ssh_url(url))
        port = parts.port
    except ValueError:
        return "The host or port is not valid; an SSH URL is such as ssh://git@example.com:22/team/app.git."
    if (
        port == 0
        or not parts.hostname
        or parts.hostname.startswith("-")
        or any(character.isspace() for character in url)
    ):
        return "This is not an SSH URL, such as ssh://git@example.com/team/app.git."
    return "Store the password in a secret, not in the URL." if parts.password else ""


def _find_host_key_problems(spec: SiteSpec) -> Iterator[dict[str, str]]:
    if spec.host_key and get_url_scheme(spec.url) != "ssh":
        yield build_spec_problem("host_key", "A host key requires an ssh:// URL.")
        return
    try:
        parse_host_keys(spec.host_key)
    except InvalidHostKey as bad:
        yield build_spec_problem("host_key", f"This is not valid: {bad}.")


def _find_authentication_problems(kind: str, spec: SiteSpec, has_secret: bool) -> Iterator[dict[str, str]]:
    ways = _AUTHENTICATION_TYPES[Connector.Kind(kind)]
    is_ssh = get_url_scheme(spec.url) == "ssh"
    if spec.authentication not in ways:
        yield build_spec_problem("authentication", f"Use {', '.join(ways)}.")
    elif spec.url and is_ssh != (spec.authentication == SSH_KEY):
        text = "An SSH URL requires SshKey." if is_ssh else "SshKey requires an ssh:// URL."
        yield build_spec_problem("authentication", text)
    elif spec.needs_secret and not has_secret:
        yield build_spec_problem("secret", "This authentication needs a secret: create one and select it.")
    if spec.authentication == PASSWORD and not _USERNAME.match(spec.username):
        yield build_spec_problem("username", "Enter the user name for the password or token.")
    if spec.authentication != PASSWORD and spec.username:
        yield build_spec_problem("username", "A user name requires UsernamePassword.")


def parse_connector_spec(kind: str, spec: Mapping[str, Any]) -> ConnectorSpec:
    """Return the spec of a connector of this kind, with unknown keys left out."""
    if kind == Connector.Kind.VAULT:
        return parse_vault_spec(spec)
    return parse_aws_spec(spec) if kind == Connector.Kind.AWS else parse_site_spec(spec)


def find_connector_spec_problems(
    kind: str, spec: Mapping[str, Any], *, has_secret: bool
) -> list[dict[str, str]]:
    """Return the problems of a spec of this kind, each as {"path", "message"}."""
    if kind == Connector.Kind.AWS:
        return find_aws_spec_problems(spec, has_secret=has_secret)
    if kind == Connector.Kind.VAULT:
        return find_vault_spec_problems(spec, has_secret=has_secret)
    return find_site_spec_problems(kind, spec, has_secret=has_secret)


def get_spec_type(kind: str) -> type[ConnectorSpec]:
    """Return the class of specs of this kind."""
    if kind == Connector.Kind.VAULT:
        return VaultSpec
    return AwsSpec if kind == Connector.Kind.AWS else SiteSpec


def has_same_login(kind: str, spec: Mapping[str, Any], other_spec: Mapping[str, Any]) -> bool:
    """Return whether two specs use the same secret at the same address.

    A secret is never sent to another address: a change of the address requires entering it again.
    """
    if kind == Connector.Kind.AWS:
        return parse_aws_spec(spec).access_key_id == parse_aws_spec(other_spec).access_key_id
    if kind == Connector.Kind.VAULT:
        vault, other_vault = parse_vault_spec(spec), parse_vault_spec(other_spec)
        return (vault.url, vault.authentication, vault.role_id, vault.login_mount) == (
            other_vault.url,
            other_vault.authentication,
            other_vault.role_id,
            other_vault.login_mount,
        )
    site, other_site = parse_site_spec(spec), parse_site_spec(other_spec)
    return (site.url, site.authentication, site.username) == (
        other_site.url,
        other_site.authentication,
        other_site.username,
    )
