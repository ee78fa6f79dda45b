"""Cursor of a drift scan: the next call for scaling, revisions or traffic, and the responses so far.

Sync reads everything else. The cursor is a value, so any process can continue it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Self

from django.db.models import Q

from aws.apis.scaling import DIMENSION, NAMESPACE, TARGETS_PER_CALL, build_resource_id
from aws.errors import AwsError, Denied, NotFound
from inventory.adoption.pairs import list_pair_target_groups
from inventory.adoption.traffic.cursor import TrafficCursor
from inventory.drift.desired_state import get_desired_state
from inventory.models.adoption import Adoption
from inventory.models.drift import TaskDefinitionRevision
from inventory.models.instances import EcsServiceRecord, SyncedCluster
from inventory.sync.column_values import clean_document
from inventory.sync.cursor import InvalidAwsResponse, ReadCall, read_next_token
from inventory.sync.ecs_payloads import AwsPayload, list_payloads

SCALING_SERVICE: Final = "application-autoscaling"
TARGETS, POLICIES, REVISIONS, TRAFFIC = "targets", "policies", "revisions", "traffic"
_LIST_MEMBERS: Final = {TARGETS: "ScalableTargets", POLICIES: "ScalingPolicies"}


@dataclass(frozen=True)
class DriftCursor:
    """The position of a drift scan, with the responses so far.

    `services` are the names whose targets are still to read, `revisions` the ARNs still to describe;
    `requested_revisions` are all ARNs of this scan.
    """

    started_at: str
    phase: str = TARGETS
    services: tuple[str, ...] = ()
    revisions: tuple[str, ...] = ()
    requested_revisions: tuple[str, ...] = ()
    token: str = ""
    calls: int = 0
    targets: Mapping[str, Any] = field(default_factory=dict)
    policies: Mapping[str, Any] = field(default_factory=dict)
    scaling_read_error: str = ""
    traffic: TrafficCursor = field(default_factory=TrafficCursor)

    @classmethod
    def of(
        cls, started_at: str, services: Sequence[str], revisions: Sequence[str], groups: Sequence[str] = ()
    ) -> Self:
        """Return a cursor for these ECS services, task definition ARNs and target groups."""
        return cls(
            started_at,
            services=tuple(services),
            revisions=tuple(revisions),
            requested_revisions=tuple(revisions),
            traffic=TrafficCursor.of(groups),
        )._advance_phase()

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        lists = {name: tuple(row[name]) for name in ("services", "revisions", "requested_revisions")}
        # Rows from before the last upgrade have none.
        traffic = TrafficCursor.from_row(row["traffic"]) if "traffic" in row else TrafficCursor()
        return cls(**{**row, **lists, "traffic": traffic})

    def to_row(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def is_complete(self) -> bool:
        return not self.phase

    def build_call(self, cluster: str) -> ReadCall:
        """Return the next call."""
        page = {"NextToken": self.token} if self.token else {}
        if self.phase == TARGETS:
            ids = [build_resource_id(cluster, name) for name in self.services[:TARGETS_PER_CALL]]
            params = {"ServiceNamespace": NAMESPACE, "ScalableDimension": DIMENSION, "ResourceIds": ids}
            return _build_call(SCALING_SERVICE, "DescribeScalableTargets", {**params, **page})
        if self.phase == POLICIES:
            params = {"ServiceNamespace": NAMESPACE, **self._build_resource_params(cluster), **page}
            return _build_call(SCALING_SERVICE, "DescribeScalingPolicies", params)
        if self.phase == TRAFFIC:
            return _build_call(*self.traffic.build_call())
        return _build_call("ecs", "DescribeTaskDefinition", {"taskDefinition": self.revisions[0]})

    def _build_resource_params(self, cluster: str) -> dict[str, Any]:
        """Limit the call to one resource; with several, one call for the region is cheaper."""
        if len(self.targets) > 1:
            return {}
        return {"ResourceId": build_resource_id(cluster, next(iter(self.targets)))}

    def after_response(self, cluster: str, response: Mapping[str, Any]) -> Self:
        """Return the cursor after a response.

        Raises `InvalidAwsResponse` for an invalid page token, and for a page of auto scaling without a list:
        all targets and policies would differ.
        """
        if self.phase == TRAFFIC:
            traffic = self.traffic.after_response(response)
            return replace(self, calls=self.calls + 1, traffic=traffic)._advance_phase()
        member = _LIST_MEMBERS.get(self.phase)
        if member and not isinstance(response.get(member), list | tuple):
            raise InvalidAwsResponse(f"The response about auto scaling has no {member}.")
        token = read_next_token(response, "NextToken", previous_token=self.token, call_count=self.calls)
        advanced = replace(self, calls=self.calls + 1, token=token)
        if self.phase == TARGETS:
            remaining = self.services if token else self.services[TARGETS_PER_CALL:]
            targets = {
                **self.targets,
                **_group_by_service(cluster, list_payloads(response, "ScalableTargets")),
            }
            return replace(advanced, services=remaining, targets=targets)._advance_phase()
        if self.phase == POLICIES:
            return replace(advanced, policies=self._with_policies(cluster, response))._advance_phase(
                is_paged=bool(token)
            )
        return replace(advanced, revisions=self.revisions[1:])._advance_phase()

    def with_targets(self, targets: Mapping[str, Any]) -> Self:
        """Return the cursor with scalable targets from another scan; None means no target."""
        remaining = tuple(name for name in self.services if name not in targets)
        scaled = {
            name: clean_document(target) or {} for name, target in targets.items() if target is not None
        }
        return replace(self, services=remaining, targets={**self.targets, **scaled})._advance_phase()

    def _with_policies(self, cluster: str, response: Mapping[str, Any]) -> dict[str, Any]:
        by_service = {name: dict(policies) for name, policies in self.policies.items()}
        for payload in list_payloads(response, "ScalingPolicies"):
            name = _read_service_name(cluster, payload)
            if name in self.targets:
                by_service.setdefault(name, {})[payload.text("PolicyName")] = (
                    clean_document(payload.raw) or {}
                )
        return by_service

    def after_error(self, error: AwsError) -> Self | None:
        """Return the cursor without the denied or missing resource, or None where the scan must fail."""
        is_denied, is_missing = isinstance(error, Denied), isinstance(error, NotFound)
        if self.phase in (TARGETS, POLICIES):
            return self.without_scaling(error.display_message) if is_denied else None
        if self.phase == TRAFFIC and (is_denied or is_missing):
            traffic = self.traffic.stop(error.display_message) if is_denied else self.traffic.skip_missing()
            return replace(self, calls=self.calls + 1, traffic=traffic)._advance_phase()
        return self.without_revision() if is_missing else None

    def without_scaling(self, reason: str) -> Self:
        """Return the cursor without auto scaling, which may not be read."""
        cursor = replace(self, phase=REVISIONS, services=(), token="", targets={}, policies={})
        return replace(cursor, scaling_read_error=reason, calls=self.calls + 1)._advance_phase()

    def without_revision(self) -> Self:
        """Return the cursor without a revision that no longer exists."""
        return replace(self, revisions=self.revisions[1:], calls=self.calls + 1)._advance_phase()

    def _advance_phase(self, *, is_paged: bool = False) -> Self:
        cursor = self
        if cursor.phase == TARGETS and not cursor.services:
            cursor = replace(cursor, phase=POLICIES if cursor.targets else REVISIONS, token="")
        elif cursor.phase == POLICIES and not is_paged:
            cursor = replace(cursor, phase=REVISIONS, token="")
        if cursor.phase == REVISIONS and not cursor.revisions:
            cursor = replace(cursor, phase=TRAFFIC, token="")
        if cursor.phase == TRAFFIC and cursor.traffic.is_complete:
            cursor = replace(cursor, phase="", token="")
        return cursor


def _build_call(service: str, operation: str, params: Mapping[str, Any]) -> ReadCall:
    return ReadCall(operation, params, lists=False, service=service)


def _group_by_service(cluster: str, rows: Sequence[AwsPayload]) -> dict[str, Any]:
    by_name = {_read_service_name(cluster, payload): clean_document(payload.raw) or {} for payload in rows}
    return {name: payload for name, payload in by_name.items() if name}


def _read_service_name(cluster: str, row: AwsPayload) -> str:
    """Return the ECS service of this cluster that a row belongs to; empty for others."""
    kind, _, resource_path = row.text("ResourceId").partition("/")
    cluster_name, _, name = resource_path.partition("/")
    is_match = kind == "service" and cluster_name == cluster.rsplit("/", 1)[-1]
    return name if is_match and row.raw.get("ScalableDimension", DIMENSION) == DIMENSION else ""


def list_compared_services(cluster: SyncedCluster) -> list[EcsServiceRecord]:
    """Return the ECS services that Slipway deploys or is to adopt."""
    adopting = Adoption.objects.filter(ecs_service__cluster=cluster).values("ecs_service")
    rows = EcsServiceRecord.objects.filter(cluster=cluster, gone_at=None)
    return list(rows.filter(Q(service__isnull=False) | Q(pk__in=adopting)).order_by("pk"))


def create_cursor(cluster: SyncedCluster, now: datetime) -> DriftCursor:
    """Return a cursor at the start of the read plan."""
    ecs_services = list_compared_services(cluster)
    desired_state = get_desired_state(cluster, ecs_services, now)
    foreign = {
        ecs_service.task_definition
        for ecs_service in ecs_services
        if ecs_service.task_definition
        # Services under deployment are not compared.
        and ecs_service.name not in desired_state.deploying
        and (
            ecs_service.name not in desired_state.desired
            or desired_state.desired[ecs_service.name].revision != ecs_service.task_definition
        )
    }
    stored = set(TaskDefinitionRevision.objects.filter(arn__in=foreign).values_list("arn", flat=True))
    adopting = list_adopting_services(cluster)
    # An adoption needs the current status of the revision.
    adopting_revisions = {
        ecs_service.task_definition for ecs_service in adopting if ecs_service.task_definition
    }
    revisions = sorted((foreign - stored) | adopting_revisions)
    groups = list_pair_target_groups(adopting)
    return DriftCursor.of(
        now.isoformat(), [ecs_service.name for ecs_service in ecs_services], revisions, groups
    )


def list_adopting_services(cluster: SyncedCluster) -> list[EcsServiceRecord]:
    """Return the ECS services with a pending adoption."""
    waiting = Adoption.objects.filter(ecs_service__cluster=cluster, state=Adoption.State.READING)
    return list(
        EcsServiceRecord.objects.filter(pk__in=waiting.values("ecs_service"), gone_at=None).order_by("pk")
    )
