"""Operations on acceptance runs, shared by command, pages and API."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from django.conf import settings
from django.db import IntegrityError, transaction

from aws.errors import AwsError
from aws.regions import list_regions
from connectors.models import Connector
from connectors.required_access import get_connector_requirements, require_access
from ops.acceptance.deletions import find_leftover_runs
from ops.acceptance.plans import AcceptancePlan, check_permissions
from ops.acceptance.resources import choose_scope, create_run_key
from ops.acceptance.runs import LIVE_SOURCE, RunProgress
from ops.acceptance.targets import (
    DEFAULT_IMAGE,
    AcceptanceImpossible,
    AcceptanceTarget,
    BlueGreenTarget,
    find_network,
    open_caller,
)
from ops.health import list_failed_checks
from ops.models import AcceptanceRun
from rbac.audit import record_audit_entry
from rbac.models import Scope, User
from rbac.policy import require
from web.clock import get_database_time
from web.http.problems import Conflict
from web.live import publish_change_on_commit

MANAGE: Final = "core_account_edit"
Status = AcceptanceRun.Status
_ARN: Final = r"arn:aws[a-z-]*:{}:[\w/:+=,.@-]{{1,400}}"
_PATTERNS: Final[Mapping[str, str]] = {
    "cluster": r"[\w-]{1,255}",
    "subnets": r"subnet-[0-9A-Za-z]{1,40}",
    "security_groups": r"sg-[0-9A-Za-z]{1,40}",
    "image": r"[\w./:-]{1,200}:[\w.-]{1,128}",
    "execution_role": _ARN.format("iam"),
    "load_balancer": _ARN.format("elasticloadbalancing"),
    "prod_listener": _ARN.format("elasticloadbalancing"),
    "prod_rule": _ARN.format("elasticloadbalancing"),
    "stage_listener": _ARN.format("elasticloadbalancing"),
    "stage_rule": _ARN.format("elasticloadbalancing"),
}
_EXPECTED: Final[Mapping[str, str]] = {
    "cluster": "the name of an ECS cluster",
    "subnets": "IDs such as subnet-0123",
    "security_groups": "IDs such as sg-0123",
    "image": "an image with its tag, such as nginx:stable",
    "execution_role": "the ARN of an IAM role",
}


@dataclass(frozen=True)
class AcceptanceSpec:
    """Request for a run. Empty fields get defaults: the test region of the connector, a service's network.

    `organization` gets the project of the run if the connector belongs to the account.
    """

    connector: Connector
    cluster: str
    region: str = ""
    subnets: tuple[str, ...] = ()
    security_groups: tuple[str, ...] = ()
    image: str = DEFAULT_IMAGE
    execution_role: str = ""
    has_public_ip: bool = True
    organization: Scope | None = None
    blue_green: BlueGreenTarget | None = None


def require_run_access(actor: User, connector: Connector | None) -> None:
    """Check the permissions to manage the installation, and to use the connector.

    Raises `Forbidden`, `MissingAccess` or `NotVisible`.
    """
    require(actor, MANAGE, Scope.objects.account())
    if connector is not None:
        require_access(actor, get_connector_requirements(connector))


def plan_run(*, actor: User, spec: AcceptanceSpec) -> AcceptancePlan:
    """Return what a run would create and cost. Only reads.

    Raises `AcceptanceImpossible`, also without workers, and the errors of `require_run_access`.
    """
    require_run_access(actor, spec.connector)
    _validate_spec(spec)
    scope = choose_scope(spec.connector, spec.organization)
    caller, region = open_caller(spec.connector, spec.region)
    subnets, groups = find_network(caller, spec.cluster, spec.subnets, spec.security_groups)
    target = AcceptanceTarget(
        connector=spec.connector,
        region=region,
        cluster=spec.cluster,
        subnets=subnets,
        security_groups=groups,
        image=spec.image,
        execution_role=spec.execution_role,
        has_public_ip=spec.has_public_ip,
        blue_green=spec.blue_green,
        caller=caller,
    )
    try:
        leftovers = tuple(find_leftover_runs(target))
    except AwsError as problem:
        raise AcceptanceImpossible(problem.display_message) from problem
    _require_workers()
    return AcceptancePlan(create_run_key(), target, scope, check_permissions(target), leftovers)


def start_run(*, actor: User, plan: AcceptancePlan) -> AcceptanceRun:
    """Start a run that workers continue. Raises `Conflict` while another run uses the cluster."""
    target = plan.target
    require_run_access(actor, target.connector)
    progress = RunProgress(actor=actor.pk, leftovers=[run.id for run in plan.leftovers])
    now = get_database_time()
    run = AcceptanceRun(
        key=plan.run.id,
        scope=plan.scope,
        connector=target.connector,
        connector_name=str(target.connector),
        region=target.region,
        cluster=target.cluster,
        target=target.to_json(),
        permissions=asdict(plan.permissions),
        version=settings.SLIPWAY_VERSION,
        requested_by=actor,
        scenarios=[scenario.name for scenario in plan.scenarios],
        progress=asdict(progress),
        started_at=now,
        due_at=now,
    )
    after = {"connector": run.connector_name, "region": run.region, "cluster": run.cluster}
    _save_open_run(actor, run, "acceptance.start", after)
    return run


def cancel_run(*, actor: User, run: AcceptanceRun) -> None:
    """Request the end of a run: the next pass aborts its deployment and deletes what it created.

    Raises `Conflict` if the run cleans up already, or is over.
    """
    require_run_access(actor, run.connector)
    now = get_database_time()
    rows = AcceptanceRun.objects.filter(pk=run.pk, status=Status.RUNNING, cancel_requested_at=None)
    with transaction.atomic():
        if not rows.update(cancel_requested_at=now, due_at=now):
            raise Conflict("The run already cleans up, or has ended.")
        record_audit_entry(actor=actor, action="acceptance.cancel", thing=run)
        publish_change_on_commit(LIVE_SOURCE, run.pk)


def delete_leftovers(*, actor: User, run: AcceptanceRun) -> None:
    """Delete what a run has left, in the name of `actor`.

    Raises `Conflict` if it left nothing, or while another run uses the cluster.
    """
    require_run_access(actor, run.connector)
    if not run.is_over or not run.left:
        raise Conflict("The run left nothing.")
    run.status, run.ended_at, run.due_at = Status.CLEANING_UP, None, get_database_time()
    run.progress, run.left = asdict(RunProgress(actor=actor.pk)), []
    _save_open_run(actor, run, "acceptance.clean_up", {})


def _save_open_run(actor: User, run: AcceptanceRun, action: str, after: dict[str, Any]) -> None:
    try:
        with transaction.atomic():
            run.save()
            record_audit_entry(actor=actor, action=action, thing=run, after=after)
            publish_change_on_commit(LIVE_SOURCE, run.pk)
    except IntegrityError as error:
        raise Conflict(f"Another acceptance run uses the cluster {run.cluster}. Wait for its end.") from error


def _validate_spec(spec: AcceptanceSpec) -> None:
    balancing = asdict(spec.blue_green) if spec.blue_green else {}
    problems = {}
    for name, pattern in _PATTERNS.items():
        value = getattr(spec, name) if hasattr(spec, name) else balancing.get(name, "")
        texts = value if isinstance(value, tuple) else (value,)
        if any(text and not re.fullmatch(pattern, text) for text in texts):
            problems[name] = f"Enter {_EXPECTED.get(name, 'an ARN of Elastic Load Balancing')}."
    if not spec.cluster:
        problems["cluster"] = "Name a cluster."
    if spec.region and not any(spec.region == region.name for region in list_regions()):
        problems["region"] = "Choose a region of AWS."
    for name in ("load_balancer", "prod_listener", "stage_listener") if spec.blue_green else ():
        if not balancing[name]:
            problems[name] = "Blue/green needs a load balancer, a production listener and a stage listener."
    if problems:
        text = " ".join(dict.fromkeys(problems.values()))
        errors = [{"path": name, "message": message} for name, message in problems.items()]
        raise AcceptanceImpossible(text, errors=errors)


def _require_workers() -> None:
    failed = list_failed_checks()
    if reasons := [text for name, text in failed.items() if name in ("broker", "worker", "dispatcher")]:
        raise AcceptanceImpossible(f"Deployments need running workers. {' '.join(reasons)}")
