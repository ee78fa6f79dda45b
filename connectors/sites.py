"""What a connector to a Git server, a registry or Terraform Cloud says: where it is, and how to enter it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from connectors.models import Connector
from connectors.specs import ConnectorSpec, problem
from guards.addresses import PRIVATE_TOO
from guards.host_keys import BadHostKey, read_host_keys
from guards.places import url_problem
from web.outgoing import own_reach

ANONYMOUS, PASSWORD, SSH_KEY = "Anonymous", "UsernamePassword", "SshKey"
TOKEN: Final = "Token"  # noqa: S105 - the way, not one
_WAYS: Final = {
    Connector.Kind.GIT: (ANONYMOUS, PASSWORD, SSH_KEY),
    Connector.Kind.DOCKER_REGISTRY: (ANONYMOUS, PASSWORD),
    Connector.Kind.TERRAFORM_CLOUD: (TOKEN,),
}
_ASKED_FOR: Final = {
    Connector.Kind.GIT: "Give the URL of a repository or of an account.",
    Connector.Kind.DOCKER_REGISTRY: "Give the URL of the registry.",
    Connector.Kind.TERRAFORM_CLOUD: "Give the URL, such as https://app.terraform.io.",
}
_REPOSITORY = re.compile(r"[\w][\w.~/-]{0,254}\Z", re.ASCII)
_USERNAME = re.compile(r"[^\s:@/\x00-\x1f]{1,255}\Z")
_SHORT_SSH = re.compile(r"(?:([\w.-]+)@)?([\w.-]+):(?!//|:)(.+)\Z", re.ASCII)
MOST_URL: Final = 500


@dataclass(frozen=True)
class SiteSpec(ConnectorSpec):
    """The spec of a connector to a Git server, a registry or Terraform Cloud.

    `url` is that of one repository, or of an account whose repositories manifests name. `test_repository`
    is the one that a test of an account asks for. `host_key` are public keys of an SSH server, one a line.
    """

    url: str = ""
    authentication: str = ANONYMOUS
    username: str = ""
    test_repository: str = ""
    host_key: str = ""

    @property
    def needs_secret(self) -> bool:
        """Whether a password, a token or a key takes part."""
        return self.authentication != ANONYMOUS

    def url_of(self, repository: str = "") -> str:
        """The URL of a repository of the account; with none, the connector's own."""
        return f"{self.url.rstrip('/')}/{repository.strip('/')}" if repository else self.url


def read_site(spec: Mapping[str, Any]) -> SiteSpec:
    """The spec of a connector, with unknown keys left out; `site_problems` is for telling people."""
    return SiteSpec.from_json(spec)


def site_problems(kind: str, spec: Mapping[str, Any], *, has_secret: bool) -> list[dict[str, str]]:
    """Everything that is wrong with a spec, each as {"path", "message"}."""
    if found := SiteSpec.shape_problems(spec):
        return found
    read = read_site(spec)
    entrance = [*_entrance_problems(kind, read, has_secret), *_host_key_problems(read)]
    return [*_place_problems(kind, read), *entrance]


def repository_problem(name: str) -> str:
    """What is wrong with the name of a repository below an account's URL, or nothing."""
    if _REPOSITORY.match(name) and ".." not in name and "//" not in name:
        return ""
    return "is not the name of a repository: letters, digits and . _ - ~ / such as team/app.git"


def _place_problems(kind: str, spec: SiteSpec) -> Iterator[dict[str, str]]:
    if why := _url_problem(kind, spec):
        yield problem("url", why)
    if spec.test_repository and kind == Connector.Kind.TERRAFORM_CLOUD:
        yield problem("test_repository", "Terraform Cloud has no repositories: leave this out.")
    elif spec.test_repository and (why := repository_problem(spec.test_repository)):
        yield problem("test_repository", f"This {why}.")
    yield from spec.route_problems()


def _url_problem(kind: str, spec: SiteSpec) -> str:
    is_git = kind == Connector.Kind.GIT
    if not spec.url:
        return _ASKED_FOR[Connector.Kind(kind)]
    if len(spec.url) > MOST_URL:
        return f"This may have {MOST_URL} characters at most."
    scheme = scheme_of(spec.url)
    if scheme == "ssh" and is_git:
        return _ssh_problem(spec.url)
    if scheme not in ("https", "http"):
        return f"This begins with https://{', http:// or ssh://' if is_git else ' or http://'}."
    if why := url_problem(spec.url, PRIVATE_TOO if spec.is_remote else own_reach()):
        return f"This cannot be asked: {why}."
    return ""


def ssh_parts(url: str) -> str:
    """An address of SSH in its long form."""
    short = _SHORT_SSH.match(url) if "://" not in url else None
    return f"ssh://{short[1] or 'git'}@{short[2]}/{short[3]}" if short else url


def scheme_of(url: str) -> str:
    """The protocol of a URL; user@host:path is SSH's short form."""
    if "://" not in url:
        return "ssh" if _SHORT_SSH.match(url) else ""
    return urlsplit(url).scheme


def _ssh_problem(url: str) -> str:
    parts = urlsplit(ssh_parts(url))
    if not parts.hostname or parts.hostname.startswith("-") or any(one.isspace() for one in url):
        return "This is no address of SSH, such as ssh://git@example.com/team/app.git."
    return "Keep the password in a secret, not in the URL." if parts.password else ""


def _host_key_problems(spec: SiteSpec) -> Iterator[dict[str, str]]:
    if spec.host_key and scheme_of(spec.url) != "ssh":
        yield problem("host_key", "A host key belongs to a URL of ssh://.")
        return
    try:
        read_host_keys(spec.host_key)
    except BadHostKey as bad:
        yield problem("host_key", f"This cannot be read: {bad}.")


def _entrance_problems(kind: str, spec: SiteSpec, has_secret: bool) -> Iterator[dict[str, str]]:
    ways = _WAYS[Connector.Kind(kind)]
    is_ssh = scheme_of(spec.url) == "ssh"
    if spec.authentication not in ways:
        yield problem("authentication", f"Use {', '.join(ways)}.")
    elif spec.url and is_ssh != (spec.authentication == SSH_KEY):
        text = "An address of SSH is entered with SshKey." if is_ssh else "SshKey belongs to a URL of ssh://."
        yield problem("authentication", text)
    elif spec.needs_secret and not has_secret:
        yield problem("secret", "This way of entering needs a secret: create one and choose it.")
    if spec.authentication == PASSWORD and not _USERNAME.match(spec.username):
        yield problem("username", "Give the user name that goes with the password or token.")
    if spec.authentication != PASSWORD and spec.username:
        yield problem("username", "A user name belongs to UsernamePassword.")
