"""Cursor of a drift scan: the next call for scaling, revisions or traffic, and the responses so far.
where the traffic of pairs that are taken over comes from.

All else was read by sync. A value, so that any process can take it up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Self

from aws.apis.scaling import DIMENSION, NAMESPACE, TARGETS_PER_CALL, build_resource_id
from aws.errors import AwsError, Denied, NotFound
from inventory.adoption.traffic.cursor import TrafficCursor
from inventory.sync.column_values import clean_document
from inventory.sync.cursor import ReadCall
from inventory.sync.ecs_payloads import AwsPayload, list_payloads
from inventory.sync.scans.pagination import read_next_token

SCALING_SERVICE: Final = "application-autoscaling"
TARGETS, POLICIES, REVISIONS, TRAFFIC = "targets", "policies", "revisions", "traffic"


@dataclass(frozen=True)
class DriftCursor:
    """How far the reading of one cluster is, and what was answered.

    `services` are the names that are left to ask the targets of, `revisions` the ARNs left to describe, of
    those that were `wanted` as it began.
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
        cls, began: str, services: Sequence[str], revisions: Sequence[str], groups: Sequence[str] = ()
    ) -> Self:
        """The reading of these ECS services, these ARNs of task definitions, and these target groups."""
        return cls(
            began,
            services=tuple(services),
            revisions=tuple(revisions),
            requested_revisions=tuple(revisions),
            traffic=TrafficCursor.of(groups),
        )._advance_phase()

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        lists = {name: tuple(row[name]) for name in ("services", "revisions", "requested_revisions")}
        # One that began before the last upgrade has none.
        traffic = TrafficCursor.from_row(row["traffic"]) if "traffic" in row else TrafficCursor()
        return cls(**{**row, **lists, "traffic": traffic})

    def to_row(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def is_complete(self) -> bool:
        return not self.phase

    def build_call(self, cluster: str) -> ReadCall:
        """The next call."""
        page = {"NextToken": self.token} if self.token else {}
        if self.phase == TARGETS:
            ids = [build_resource_id(cluster, name) for name in self.services[:TARGETS_PER_CALL]]
            asked = {"ServiceNamespace": NAMESPACE, "ScalableDimension": DIMENSION, "ResourceIds": ids}
            return _build_call(SCALING_SERVICE, "DescribeScalableTargets", {**asked, **page})
        if self.phase == POLICIES:
            asked = {"ServiceNamespace": NAMESPACE, **self._build_resource_params(cluster), **page}
            return _build_call(SCALING_SERVICE, "DescribeScalingPolicies", asked)
        if self.phase == TRAFFIC:
            return _build_call(*self.traffic.build_call())
        return _build_call("ecs", "DescribeTaskDefinition", {"taskDefinition": self.revisions[0]})

    def _build_resource_params(self, cluster: str) -> dict[str, Any]:
        """One resource, or the whole region at once, which is fewer calls than one for each."""
        if len(self.targets) > 1:
            return {}
        return {"ResourceId": build_resource_id(cluster, next(iter(self.targets)))}

    def after_response(self, cluster: str, answer: Mapping[str, Any]) -> Self:
        """After an answer. Raises `InvalidAwsResponse` for a page after which no other can be asked for."""
        if self.phase == TRAFFIC:
            traffic = self.traffic.after_response(answer)
            return replace(self, calls=self.calls + 1, traffic=traffic)._advance_phase()
        token = read_next_token(answer, "NextToken", before=self.token, calls=self.calls)
        one_more = replace(self, calls=self.calls + 1, token=token)
        if self.phase == TARGETS:
            left = self.services if token else self.services[TARGETS_PER_CALL:]
            found = {**self.targets, **_group_by_service(cluster, list_payloads(answer, "ScalableTargets"))}
            return replace(one_more, services=left, targets=found)._advance_phase()
        if self.phase == POLICIES:
            return replace(one_more, policies=self._with_policies(cluster, answer))._advance_phase(
                is_paged=bool(token)
            )
        return replace(one_more, revisions=self.revisions[1:])._advance_phase()

    def with_targets(self, found: Mapping[str, Any]) -> Self:
        """With what scales these services, which somebody else has read; None is nothing."""
        left = tuple(name for name in self.services if name not in found)
        scaled = {name: clean_document(one) or {} for name, one in found.items() if one is not None}
        return replace(self, services=left, targets={**self.targets, **scaled})._advance_phase()

    def _with_policies(self, cluster: str, answer: Mapping[str, Any]) -> dict[str, Any]:
        found = {name: dict(policies) for name, policies in self.policies.items()}
        for one in list_payloads(answer, "ScalingPolicies"):
            name = _read_service_name(cluster, one)
            if name in self.targets:
                found.setdefault(name, {})[one.text("PolicyName")] = clean_document(one.raw) or {}
        return found

    def after_error(self, error: AwsError) -> Self | None:
        """Where one thing may not be read, or is gone, all else is; None where that ends the reading."""
        is_denied, is_missing = isinstance(error, Denied), isinstance(error, NotFound)
        if self.phase in (TARGETS, POLICIES):
            return self.without_scaling(error.display_message) if is_denied else None
        if self.phase == TRAFFIC and (is_denied or is_missing):
            traffic = self.traffic.stop(error.display_message) if is_denied else self.traffic.skip_missing()
            return replace(self, calls=self.calls + 1, traffic=traffic)._advance_phase()
        return self.without_revision() if is_missing else None

    def without_scaling(self, reason: str) -> Self:
        """Where auto scaling may not be read: all else is compared."""
        gone = replace(self, phase=REVISIONS, services=(), token="", targets={}, policies={})
        return replace(gone, scaling_read_error=reason, calls=self.calls + 1)._advance_phase()

    def without_revision(self) -> Self:
        """Where a revision is not there any more."""
        return replace(self, revisions=self.revisions[1:], calls=self.calls + 1)._advance_phase()

    def _advance_phase(self, *, is_paged: bool = False) -> Self:
        found = self
        if found.phase == TARGETS and not found.services:
            found = replace(found, phase=POLICIES if found.targets else REVISIONS, token="")
        elif found.phase == POLICIES and not is_paged:
            found = replace(found, phase=REVISIONS, token="")
        if found.phase == REVISIONS and not found.revisions:
            found = replace(found, phase=TRAFFIC, token="")
        if found.phase == TRAFFIC and found.traffic.is_complete:
            found = replace(found, phase="", token="")
        return found


def _build_call(service: str, operation: str, params: Mapping[str, Any]) -> ReadCall:
    return ReadCall(operation, params, lists=False, service=service)


def _group_by_service(cluster: str, rows: Sequence[AwsPayload]) -> dict[str, Any]:
    found = {_read_service_name(cluster, one): clean_document(one.raw) or {} for one in rows}
    return {name: one for name, one in found.items() if name}


def _read_service_name(cluster: str, row: AwsPayload) -> str:
    """The ECS service of this cluster that a row is about; empty for others."""
    kind, _, rest = row.text("ResourceId").partition("/")
    where, _, name = rest.partition("/")
    is_here = kind == "service" and where == cluster.rsplit("/", 1)[-1]
    return name if is_here and row.raw.get("ScalableDimension", DIMENSION) == DIMENSION else ""
