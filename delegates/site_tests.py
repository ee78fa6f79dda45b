"""Trying a connector to a Git server or a registry, and what to do next where it fails (R154, R155)."""

from typing import Final

from aws.caller import Caller
from aws.errors import AwsError
from connectors.models import Connector
from connectors.sites import SiteSpec, read_site
from delegates.doors import DoorClosed
from delegates.errands import LIST_REFS, LIST_TAGS, PING_REGISTRY, SERVICE
from delegates.trials import Check, ConnectorTest

REPOSITORY, REGISTRY = "Repository", "Registry"
# Of what a program says, in small letters; the first that is found counts.
_BECAUSE: Final = (
    (
        "private address",
        "Let the connector go through a delegate in that network, or allow the network here.",
    ),
    ("no registered delegate", "Start a delegate, or give one the tags that the connector asks for."),
    (
        "permission denied (publickey",
        "Register the public half of the key at the Git server, then test again.",
    ),
    ("libcrypto", "The secret is no private SSH key: give the whole file, from BEGIN to END."),
    ("authentication failed", "Look whether user name and token are right and the token is not expired."),
    ("could not read username", "The server wants a login: choose user name and password."),
    ("not found", "Look at the URL; for the URL of an account, name a repository for the test."),
    ("wants a login", "The registry wants a login: choose user name and password."),
    ("gave no token", "Look whether user name and password are right."),
    ("certificate", "Give whoever calls the certificate authority of this server, then test again."),
)
_REACH: Final = "Make sure that {who} reaches {where}: name resolution, a proxy or firewall on the way."


def examine_site(connector: Connector, caller: Caller, *, delegate: str = "") -> ConnectorTest:
    """Ask for branches and tags, or whether the registry is there; `delegate` asks, where one is named.

    Raises `CallPending` where a delegate has not answered yet.
    """
    site = read_site(connector.spec)
    name = REPOSITORY if connector.kind == Connector.Kind.GIT or site.test_repository else REGISTRY
    try:
        said = _asked(connector, site, caller)
    except (AwsError, DoorClosed) as problem:
        return _failed(site, name, str(problem), delegate)
    return ConnectorTest(ok=True, message=said, checks=(Check(name, True, said),), delegate=delegate)


def _asked(connector: Connector, site: SiteSpec, caller: Caller) -> str:
    if connector.kind == Connector.Kind.GIT:
        refs = caller.call(SERVICE, LIST_REFS, {"repository": site.test_repository})
        found = f"{_counted(refs['branches'], 'branch', 'branches')}, {_counted(refs['tags'], 'tag', 'tags')}"
        return f"Connected to {site.url_of(site.test_repository)}: {found}."
    if not site.test_repository:
        caller.call(SERVICE, PING_REGISTRY, {})
        return f"Connected to {site.url}."
    tags = caller.call(SERVICE, LIST_TAGS, {"repository": site.test_repository})["tags"]
    return f"Connected to {site.url}: {_counted(tags, 'tag', 'tags')} of {site.test_repository}."


def _counted(found: list[str], one: str, several: str) -> str:
    return f"{len(found)} {one if len(found) == 1 else several}"


def _failed(site: SiteSpec, name: str, problem: str, delegate: str) -> ConnectorTest:
    said = problem.lower()
    reach = _REACH.format(who="the delegate" if site.is_remote else "Slipway", where=site.url)
    step = next((step for part, step in _BECAUSE if part in said), reach)
    return ConnectorTest(
        ok=False,
        message=problem,
        checks=(Check(name, False, problem),),
        next_step=step,
        delegate=delegate,
    )
