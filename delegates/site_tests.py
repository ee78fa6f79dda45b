"""Trying a connector that is not to AWS, and what to do next where it fails (R154, R155)."""

from typing import Final

from aws.caller import Caller
from aws.errors import AwsError
from connectors.models import Connector
from connectors.sites import SiteSpec, read_site
from delegates.doors import DoorClosed
from delegates.errands import LIST_REFS, LIST_TAGS, PING_REGISTRY, SERVICE
from delegates.site_steps import step_after
from delegates.terraform_questions import whose_token
from delegates.trials import Check, ConnectorTest

REPOSITORY, REGISTRY, TERRAFORM_CLOUD = "Repository", "Registry", "Terraform Cloud"
_REACH: Final = "Make sure that {who} reaches {where}: name resolution, a proxy or firewall on the way."


def examine_site(connector: Connector, caller: Caller, *, delegate: str = "") -> ConnectorTest:
    """Ask for branches and tags, whether the registry is there, or whose a token is.

    `delegate` asks, where one is named.

    Raises `CallPending` where a delegate has not answered yet.
    """
    site = read_site(connector.spec)
    name = TERRAFORM_CLOUD if connector.kind == Connector.Kind.TERRAFORM_CLOUD else REGISTRY
    name = REPOSITORY if connector.kind == Connector.Kind.GIT or site.test_repository else name
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
    if connector.kind == Connector.Kind.TERRAFORM_CLOUD:
        return f"Connected to {site.url}: {whose_token(caller)}."
    if not site.test_repository:
        caller.call(SERVICE, PING_REGISTRY, {})
        return f"Connected to {site.url}."
    tags = caller.call(SERVICE, LIST_TAGS, {"repository": site.test_repository})["tags"]
    return f"Connected to {site.url}: {_counted(tags, 'tag', 'tags')} of {site.test_repository}."


def _counted(found: list[str], one: str, several: str) -> str:
    return f"{len(found)} {one if len(found) == 1 else several}"


def _failed(site: SiteSpec, name: str, problem: str, delegate: str) -> ConnectorTest:
    reach = _REACH.format(who="the delegate" if site.is_remote else "Slipway", where=site.url)
    step = step_after(problem) or reach
    return ConnectorTest(
        ok=False,
        message=problem,
        checks=(Check(name, False, problem),),
        next_step=step,
        delegate=delegate,
    )
