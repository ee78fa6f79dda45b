"""Checks of the ECS service of a delegate that does not connect, through a connector of the reader."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from connectors.models import Connector
from connectors.specs.aws import parse_aws_spec
from delegates.access.lookup_requests import read_shared_options
from delegates.access.service_starts import build_start_subject
from delegates.install.plan import SpecPlan
from delegates.models import Delegate, LookupRequest
from delegates.queries.aws_connectors import list_near_connectors
from guards.text import parse_key
from rbac.models import User
from web.http.problems import Problem

NEEDED_ACTIONS: Final = "ecs:DescribeServices, ecs:ListTasks and ecs:DescribeTasks"
MAX_CONNECTORS: Final = 200


@dataclass(frozen=True)
class FailureReport:
    """Why ECS stopped a task, or could not start one."""

    at: datetime | None
    is_event: bool
    reason: str


@dataclass(frozen=True)
class StartCheck:
    """Check of a service; without a `connector`, one of `connectors` has to be chosen."""

    plan: SpecPlan
    connectors: list[Connector]
    connector: Connector | None = None
    lookup: LookupRequest | None = None
    refusal: str = ""
    needed_actions: str = NEEDED_ACTIONS

    @property
    def is_reading(self) -> bool:
        return self.lookup is not None and self.lookup.report is None

    @property
    def error(self) -> str:
        """Return why the service cannot be read; empty if it can."""
        return self.refusal or self._report.get("error", "")

    @property
    def service(self) -> dict[str, Any]:
        """Return the fields of `ServiceStart`; empty without an answer, or a cluster."""
        seen = self._report.get("seen")
        return dict(seen[0]) if seen else {}

    @property
    def failures(self) -> list[FailureReport]:
        """Return why tasks failed, newest first."""
        rows = self.service.get("failures", ())
        return [
            FailureReport(
                datetime.fromisoformat(row["at"]) if row["at"] else None,
                row["source"] == "event",
                row["reason"],
            )
            for row in rows
        ]

    @property
    def is_running(self) -> bool:
        return bool(self.service.get("running"))

    @property
    def _report(self) -> dict[str, Any]:
        return (self.lookup.report if self.lookup else None) or {}


def check_start(
    *, actor: User, delegate: Delegate, plan: SpecPlan, chosen: str = "", installed_by: Sequence[int] = ()
) -> StartCheck:
    """Read why the tasks of a delegate do not run.

    `chosen` is the key of a connector, `installed_by` has those that deployed the delegate. All readers
    share an answer of the last minute. Never raises for a connector that cannot read.
    """
    connectors = list(list_near_connectors(actor, delegate.scope)[:MAX_CONNECTORS])
    subject = build_start_subject(plan.cluster, plan.service, plan.family)
    by_key = {connector.pk: connector for connector in connectors}
    used = LookupRequest.objects.filter(
        connector__in=by_key, kind=LookupRequest.Kind.STARTS, region=plan.region, subject=subject
    )
    preferred = [
        *filter(None, [parse_key(chosen)]),
        *installed_by,
        *used.order_by("-requested_at").values_list("connector", flat=True)[:1],
    ]
    connector = next((by_key[key] for key in preferred if key in by_key), None)
    connector = connector or _find_only_connector(connectors, delegate.aws_account)
    if connector is None:
        return StartCheck(plan, connectors)
    try:
        lookup = read_shared_options(
            actor=actor,
            connector=connector,
            kind=LookupRequest.Kind.STARTS,
            region=plan.region,
            subject=subject,
        )
    except Problem as problem:
        return StartCheck(plan, connectors, connector, refusal=problem.detail)
    return StartCheck(plan, connectors, connector, lookup)


def _find_only_connector(connectors: list[Connector], account: str) -> Connector | None:
    """Return the connector that alone may be to an account."""
    possible = [connector for connector in connectors if _may_be_of(connector, account)]
    return possible[0] if len(possible) == 1 else None


def _may_be_of(connector: Connector, account: str) -> bool:
    """Return whether a connector may be to an account: its role, if any, says to which."""
    role = parse_aws_spec(connector.spec).role_arn
    return not (account and role) or role.split(":")[4] == account
