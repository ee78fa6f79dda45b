"""Connector tests: identity and clusters of AWS, reachability of sites."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from aws.apis.ecs import EcsClient
from aws.apis.iam import AwsIdentity, StsClient
from aws.caller import Caller
from aws.errors import AwsError, Undelivered
from connectors.models import Connector
from connectors.required_access import get_connector_requirements, require_access
from connectors.secret_managers.base import SecretUnreadable
from connectors.secret_managers.vault import check_login
from connectors.specs.aws import AwsSpec, parse_aws_spec
from connectors.specs.sites import SiteSpec, parse_site_spec
from delegates.access.aws_access import ConnectorUnavailable, get_local_caller
from delegates.access.remedies import Remedy, find_remedy, find_site_remedy
from delegates.access.site_calls import LIST_REFS, LIST_TAGS, PING_REGISTRY, SITE_SERVICE, SiteCaller
from delegates.access.terraform_cloud import CALL_TERRAFORM
from rbac.audit import record_audit_entry
from rbac.policy import Principal


@dataclass(frozen=True)
class ConnectorCheck:
    """One thing that was tried."""

    name: str
    ok: bool
    message: str


@dataclass(frozen=True)
class ConnectorTest:
    """Result of a connector test; `policy` is the JSON of a missing IAM policy, or empty."""

    ok: bool
    message: str
    region: str = ""
    account_id: str = ""
    arn: str = ""
    checks: tuple[ConnectorCheck, ...] = ()
    next_step: str = ""
    policy: str = ""
    delegate: str = ""

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "checks": [asdict(check) for check in self.checks]}


# Name of the user that Terraform Cloud creates for an organization token.
_OF_ORGANIZATION: Final = "api-org-"
MAX_SHOWN_ORGANIZATIONS: Final = 5


def describe_token_owner(caller: Caller) -> str:
    """Return a sentence that names the token's owner and its visible organizations.

    Raises `Undelivered` with the reason if the token is unusable, `CallPending` while a delegate works.
    """
    user = _read_account(caller, "account", "details").get("data") or {}
    name = str((user.get("attributes") or {}).get("username", ""))[:100]
    if name.startswith(_OF_ORGANIZATION):
        raise Undelivered("TOKEN_REFUSED", "This is an organization's token, which cannot make runs.")
    listed = _read_account(caller, "organizations").get("data")
    organization_ids = [
        str(organization.get("id", ""))[:100]
        for organization in listed or []
        if isinstance(organization, Mapping)
    ]
    if not organization_ids:
        return f"the token belongs to {name} and has no organizations"
    more = (
        f" and {len(organization_ids) - MAX_SHOWN_ORGANIZATIONS} more"
        if len(organization_ids) > MAX_SHOWN_ORGANIZATIONS
        else ""
    )
    word = "organization" if len(organization_ids) == 1 else "organizations"
    return (
        f"the token belongs to {name} with access to the {word} "
        f"{', '.join(organization_ids[:MAX_SHOWN_ORGANIZATIONS])}{more}"
    )


def _read_account(caller: Caller, *path: str) -> dict[str, Any]:
    response = caller.call(SITE_SERVICE, CALL_TERRAFORM, {"path": list(path)})
    status = int(response.get("status", 0))
    if status in (401, 403):
        raise Undelivered("TOKEN_REFUSED", f"Terraform Cloud does not accept the token ({status}).")
    try:
        body = json.loads(str(response.get("body", "")))
    except (ValueError, RecursionError):
        body = None
    if status != 200 or not isinstance(body, dict):
        raise Undelivered("NOT_TERRAFORM_CLOUD", f"There is no Terraform Cloud at this URL ({status}).")
    return body


REPOSITORY, REGISTRY, TERRAFORM_CLOUD = "Repository", "Registry", "Terraform Cloud"
_REACH: Final = "Make sure that {who} reaches {where}: check name resolution, proxies and firewalls."


def run_site_test(connector: Connector, caller: Caller, *, delegate: str = "") -> ConnectorTest:
    """Read branches and tags, check the registry, or read the token's owner.

    The given `delegate` sends the request. Raises `CallPending` until the delegate has answered.
    """
    site = parse_site_spec(connector.spec)
    name = TERRAFORM_CLOUD if connector.kind == Connector.Kind.TERRAFORM_CLOUD else REGISTRY
    name = REPOSITORY if connector.kind == Connector.Kind.GIT or site.test_repository else name
    try:
        message = _call_site(connector, site, caller)
    except (AwsError, ConnectorUnavailable) as problem:
        return _build_failure(site, name, str(problem), delegate)
    return ConnectorTest(
        ok=True, message=message, checks=(ConnectorCheck(name, True, message),), delegate=delegate
    )


def _call_site(connector: Connector, site: SiteSpec, caller: Caller) -> str:
    if connector.kind == Connector.Kind.GIT:
        refs = caller.call(SITE_SERVICE, LIST_REFS, {"repository": site.test_repository})
        counts = (
            f"{_format_count(refs['branches'], 'branch', 'branches')}, "
            f"{_format_count(refs['tags'], 'tag', 'tags')}"
        )
        return f"Connected to {site.build_url(site.test_repository)}: {counts}."
    if connector.kind == Connector.Kind.TERRAFORM_CLOUD:
        return f"Connected to {site.url}: {describe_token_owner(caller)}."
    if not site.test_repository:
        caller.call(SITE_SERVICE, PING_REGISTRY, {})
        return f"Connected to {site.url}."
    tags = caller.call(SITE_SERVICE, LIST_TAGS, {"repository": site.test_repository})["tags"]
    return f"Connected to {site.url}: {_format_count(tags, 'tag', 'tags')} of {site.test_repository}."


def _format_count(values: list[str], singular: str, plural: str) -> str:
    return f"{len(values)} {singular if len(values) == 1 else plural}"


def _build_failure(site: SiteSpec, name: str, problem: str, delegate: str) -> ConnectorTest:
    reach = _REACH.format(who="the delegate" if site.is_remote else "Slipway", where=site.url)
    step = find_site_remedy(problem) or reach
    return ConnectorTest(
        ok=False,
        message=problem,
        checks=(ConnectorCheck(name, False, problem),),
        next_step=step,
        delegate=delegate,
    )


IDENTITY_CHECK, CLUSTERS_CHECK = "Identity", "ECS clusters"


@dataclass
class _AwsTest:
    """A test under way."""

    spec: AwsSpec
    region: str
    delegate: str = ""
    checks: list[ConnectorCheck] = field(default_factory=list)
    identity: AwsIdentity = field(default_factory=lambda: AwsIdentity("", ""))
    next_step: Remedy = field(default_factory=lambda: Remedy(""))

    def add_success(self, name: str, message: str) -> None:
        self.checks.append(ConnectorCheck(name, True, message))

    def add_failure(self, name: str, problem: AwsError | ConnectorUnavailable) -> None:
        self.checks.append(ConnectorCheck(name, False, str(problem)))
        if isinstance(problem, ConnectorUnavailable):
            self.next_step = Remedy("Edit the connector, then test again.")
        else:
            self.next_step = find_remedy(problem, self.spec, self.region)

    def result(self) -> ConnectorTest:
        return ConnectorTest(
            ok=all(check.ok for check in self.checks),
            message=" ".join(check.message for check in self.checks),
            region=self.region,
            account_id=self.identity.account_id,
            arn=self.identity.arn,
            checks=tuple(self.checks),
            next_step=self.next_step.text,
            policy=self.next_step.policy,
            delegate=self.delegate,
        )


def run_connector_test(
    *,
    actor: Principal,
    connector: Connector,
    region: str = "",
) -> ConnectorTest:
    """Test a connector from this process (R152, R154), and store the result on the connector."""
    require_access(actor, get_connector_requirements(connector))
    if connector.kind == Connector.Kind.AWS:
        result = _test_aws_locally(connector, region or parse_aws_spec(connector.spec).test_region)
    elif connector.kind == Connector.Kind.VAULT:
        result = run_vault_test(connector)
    else:
        result = run_site_test(connector, SiteCaller(connector))
    record_connector_test(actor=actor, connector=connector, result=result)
    return result


def run_vault_test(
    connector: Connector, caller: Caller | None = None, *, delegate: str = ""
) -> ConnectorTest:
    """Log in to Vault, and read what the login is called there.

    `caller` makes the requests of the given `delegate` in place of this process; it may raise `CallPending`.
    """
    try:
        message, is_ok = check_login(connector, caller), True
    except SecretUnreadable as problem:
        message, is_ok = str(problem), False
    checks = (ConnectorCheck("Login", is_ok, message),)
    return ConnectorTest(ok=is_ok, message=message, checks=checks, delegate=delegate)


def _test_aws_locally(connector: Connector, region: str) -> ConnectorTest:
    """Call GetCallerIdentity, and list the clusters of a region, from this process."""
    try:
        return run_aws_test(connector, region, get_local_caller(connector, region))
    except ConnectorUnavailable as closed:
        trial = _AwsTest(parse_aws_spec(connector.spec), region)
        trial.add_failure(IDENTITY_CHECK, closed)
        return trial.result()


def record_connector_test(*, actor: Principal, connector: Connector, result: ConnectorTest) -> None:
    """Store the result of a test on the connector, unless somebody has changed it since it was loaded."""
    values = {
        "last_tested_at": timezone.now(),
        "last_test_ok": result.ok,
        "last_test_message": result.message,
        "last_test_report": result.to_json(),
    }
    with transaction.atomic():
        unchanged = Connector.objects.filter(pk=connector.pk, updated_at=connector.updated_at)
        if not unchanged.update(**values):
            return
        for name, value in values.items():
            setattr(connector, name, value)
        after = {"ok": result.ok, "message": result.message}
        record_audit_entry(actor=actor, action="connector.test", thing=connector, after=after)


def run_aws_test(connector: Connector, region: str, caller: Caller, *, delegate: str = "") -> ConnectorTest:
    """Send the AWS calls of a test through `delegate`, or from this process if `delegate` is None."""
    trial = _AwsTest(parse_aws_spec(connector.spec), region, delegate)
    try:
        trial.identity = StsClient(caller).get_identity()
    except AwsError as problem:
        trial.add_failure(IDENTITY_CHECK, problem)
        return trial.result()
    trial.add_success(
        IDENTITY_CHECK, f"Connected to account {trial.identity.account_id} as {trial.identity.arn}."
    )
    _try_clusters(trial, caller)
    return trial.result()


def _try_clusters(trial: _AwsTest, caller: Caller) -> None:
    try:
        count = len(EcsClient(caller).list_clusters())
    except AwsError as error:
        trial.add_failure(CLUSTERS_CHECK, error)
    else:
        clusters = "1 ECS cluster" if count == 1 else f"{count} ECS clusters"
        trial.add_success(CLUSTERS_CHECK, f"{clusters} in {trial.region}.")
