"""Cursor of a sync scan: phase, pending names and page token, stored so that any worker continues.

Tasks are listed by cluster, a hundred to a page, and each page is described at once: no call per service.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Final, Self

from aws.apis.cloudwatch import METRICS_PER_CALL, build_metric_data_request
from aws.apis.ecs import (
    CONTAINER_INSTANCES_PER_CALL,
    DAEMON_ARNS_PER_CALL,
    SERVICES_PER_CALL,
    TASKS_PER_CALL,
)
from aws.apis.scaling import DIMENSION, NAMESPACE, TARGETS_PER_CALL
from guards.limits import SYNC_CALLS
from guards.text import find_control_problem
from inventory.sync.ecs_payloads import list_arns
from inventory.sync.upserts.usage import METRICS, build_usage_metrics, compute_usage_window

_MAX_TOKEN_LENGTH: Final = 8192


class InvalidAwsResponse(Exception):
    """A response without a valid next page; the message is for the reader."""


def read_next_token(response: Mapping[str, Any], name: str, *, previous_token: str, call_count: int) -> str:
    """Return the token of the next page, empty after the last one.

    `previous_token` requested this page; `call_count` is the number of calls so far. Raises
    `InvalidAwsResponse`, since a truncated list would end tasks that still run.
    """
    token = response.get(name) or ""
    if not isinstance(token, str) or len(token) > _MAX_TOKEN_LENGTH or find_control_problem(token):
        raise InvalidAwsResponse("AWS returned an invalid page token.")
    if call_count >= SYNC_CALLS or (token and token == previous_token):
        raise InvalidAwsResponse("AWS returned an endless list for this cluster.")
    return token


PAGE_SIZE: Final = 100
SERVICES, SCALING, RUNNING, STOPPED = "services", "scaling", "running", "stopped"
MACHINES, ACTIVITIES, HEALTH, USAGE = "machines", "activities", "health", "usage"
DAEMONS, DAEMON_DETAILS = "daemons", "daemon_details"
DAEMON_DEPLOYMENTS, DAEMON_REVISIONS = "daemon_deployments", "daemon_revisions"
_PHASE_ORDER: Final = (
    SERVICES, SCALING, RUNNING, STOPPED, MACHINES,
    DAEMONS, DAEMON_DETAILS, DAEMON_DEPLOYMENTS, DAEMON_REVISIONS,
    ACTIVITIES, HEALTH, USAGE, "",
)  # fmt: skip
# Phases whose names come from rows; a sync is complete without them.
OPTIONAL_PHASES: Final = frozenset(_PHASE_ORDER) - {SERVICES, RUNNING, STOPPED, ""}
# The services of calls that are not of ECS.
_SERVICES_OF_PHASES: Final = {
    SCALING: "application-autoscaling",
    ACTIVITIES: "application-autoscaling",
    HEALTH: "elbv2",
    USAGE: "cloudwatch",
}
# Phases in which one batch may have several pages, and the name of the token in the response.
_PAGE_TOKENS: Final = {DAEMONS: "nextToken", ACTIVITIES: "NextToken", USAGE: "NextToken"}
# By phase: the operation, the parameter of the names, and the names per call.
_DESCRIBE_CALLS: Final = {
    SERVICES: ("DescribeServices", "services", SERVICES_PER_CALL),
    SCALING: ("DescribeScalableTargets", "ResourceIds", TARGETS_PER_CALL),
    RUNNING: ("DescribeTasks", "tasks", TASKS_PER_CALL),
    STOPPED: ("DescribeTasks", "tasks", TASKS_PER_CALL),
    MACHINES: ("DescribeContainerInstances", "containerInstances", CONTAINER_INSTANCES_PER_CALL),
    # Of the cluster, by its ARN.
    DAEMONS: ("ListDaemons", "clusterArn", 1),
    DAEMON_DETAILS: ("DescribeDaemon", "daemonArn", 1),
    DAEMON_DEPLOYMENTS: ("DescribeDaemonDeployments", "daemonDeploymentArns", DAEMON_ARNS_PER_CALL),
    DAEMON_REVISIONS: ("DescribeDaemonRevisions", "daemonRevisionArns", DAEMON_ARNS_PER_CALL),
    ACTIVITIES: ("DescribeScalingActivities", "ResourceId", 1),
    HEALTH: ("DescribeTargetHealth", "TargetGroupArn", 1),
    # CPU and memory of each service.
    USAGE: ("GetMetricData", "", METRICS_PER_CALL // len(METRICS)),
}
_LIST_CALLS: Final = {
    SERVICES: ("ListServices", "serviceArns", {}),
    RUNNING: ("ListTasks", "taskArns", {"desiredStatus": "RUNNING"}),
    STOPPED: ("ListTasks", "taskArns", {"desiredStatus": "STOPPED"}),
}


@dataclass(frozen=True)
class ReadCall:
    """A read call of ECS or a related service, and whether it lists or describes."""

    operation: str
    params: Mapping[str, Any]
    lists: bool
    service: str = "ecs"


# What a sync reads: everything, the lists and what is new there, or announced changes.
ALL, LISTS, CHANGES = "", "lists", "changes"
_LIST_ONLY_PHASES: Final = frozenset(
    {SERVICES, SCALING, RUNNING, STOPPED, MACHINES, ACTIVITIES, HEALTH, USAGE}
)
_CHANGE_PHASES: Final = frozenset({SERVICES, SCALING, RUNNING, ACTIVITIES, HEALTH, USAGE})
_PHASES_OF: Final = {LISTS: _LIST_ONLY_PHASES, CHANGES: _CHANGE_PHASES}


@dataclass(frozen=True)
class SyncCursor:
    """The position of a sync: the names still to describe, and whether the list continues."""

    started_at: str
    phase: str = SERVICES
    pending: tuple[str, ...] = ()
    token: str = ""
    is_listed: bool = False
    calls: int = 0
    is_filled: bool = False
    is_follow_up: bool = False
    extent: str = ALL

    @classmethod
    def of_changes(cls, started_at: str, services: Iterable[str]) -> Self:
        """Return a cursor for services with announced changes, and for their changed tasks."""
        cursor = cls(started_at, pending=tuple(services), is_listed=True, extent=CHANGES)
        return cursor._advance_phase()

    @classmethod
    def of_follow_up(cls, started_at: str, services: Iterable[str]) -> Self:
        """Return a cursor after a deployment, for known services and tasks."""
        return cls(started_at, pending=tuple(services), is_listed=True, is_follow_up=True)._advance_phase()

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        return cls(**{**row, "pending": tuple(row["pending"])})

    def to_row(self) -> dict[str, Any]:
        row = asdict(self)
        if not self.extent:
            # The release before reads cursors of whole syncs.
            del row["extent"]
        return row

    @property
    def is_complete(self) -> bool:
        return not self.phase

    @property
    def needs_targets(self) -> bool:
        """Return whether this phase takes its names from rows."""
        has_rows = self.phase in OPTIONAL_PHASES or (self.extent == CHANGES and self.phase == RUNNING)
        return has_rows and not self.is_filled

    def with_targets(self, names: Iterable[str]) -> Self:
        """Return the cursor with the names to describe; without any, the next phase."""
        return replace(self, pending=tuple(names), is_listed=True, is_filled=True)._advance_phase()

    def without(self, names: Collection[str]) -> Self:
        """Return the cursor without services that the engine has described."""
        remaining = tuple(name for name in self.pending if name.rsplit("/", 1)[-1] not in names)
        return replace(self, pending=remaining)._advance_phase()

    def skip_phase(self) -> Self:
        """Return the cursor at the next phase, after a failed call."""
        return replace(self, pending=(), is_listed=True, calls=self.calls + 1)._advance_phase()

    def build_call(self, cluster: str) -> ReadCall:
        """Return the next call. A full batch is described before the list continues."""
        if not self._is_batch_due:
            operation, _, which = _LIST_CALLS[self.phase]
            page = {"nextToken": self.token} if self.token else {}
            return ReadCall(
                operation, {"cluster": cluster, "maxResults": PAGE_SIZE, **which, **page}, lists=True
            )
        operation, member, size = _DESCRIBE_CALLS[self.phase]
        params = self._build_describe_params(cluster, member, list(self.pending[:size]))
        return ReadCall(operation, params, lists=False, service=_SERVICES_OF_PHASES.get(self.phase, "ecs"))

    def _build_describe_params(self, cluster: str, member: str, batch: list[str]) -> dict[str, Any]:
        token_name = _PAGE_TOKENS.get(self.phase, "")
        page = {token_name: self.token} if self.token and token_name else {}
        if self.phase == SCALING:
            return {"ServiceNamespace": NAMESPACE, "ScalableDimension": DIMENSION, member: batch}
        if self.phase == ACTIVITIES:
            resource = {member: batch[0], "ScalableDimension": DIMENSION} if batch[0] else {}
            return {"ServiceNamespace": NAMESPACE, "MaxResults": TARGETS_PER_CALL, **resource, **page}
        if self.phase == USAGE:
            since, until = compute_usage_window(datetime.fromisoformat(self.started_at))
            return {**build_metric_data_request(build_usage_metrics(batch), since, until), **page}
        if self.phase == DAEMONS:
            return {member: batch[0], "maxResults": PAGE_SIZE, **page}
        if self.phase in (HEALTH, DAEMON_DETAILS):
            return {member: batch[0]}
        if self.phase in (DAEMON_DEPLOYMENTS, DAEMON_REVISIONS):
            return {member: batch}
        include = {"include": ["TAGS"]} if self.phase == SERVICES else {}
        return {"cluster": cluster, member: batch, **include}

    def after_list_page(
        self, response: Mapping[str, Any], *, stored: Iterable[str] = (), ended: Iterable[str] = ()
    ) -> Self:
        """Return the cursor after a page of a list.

        `stored` need not be described again; `ended` are described too after the last page. Raises
        `InvalidAwsResponse` for an invalid page token, and for a page without a list: everything would end.
        """
        operation, member, _ = _LIST_CALLS[self.phase]
        if not isinstance(response.get(member), list | tuple):
            raise InvalidAwsResponse(f"The response of {operation} has no {member}.")
        skip, token = set(stored), self._read_next_token(response)
        new = tuple(arn for arn in list_arns(response, member) if arn not in skip)
        ended_arns = () if token else tuple(ended)
        return replace(
            self,
            pending=self.pending + new + ended_arns,
            token=token,
            is_listed=not token,
            calls=self.calls + 1,
        )._advance_phase()

    def after_describe_page(self, response: Mapping[str, Any]) -> Self:
        """Return the cursor after one of several pages of a batch.

        Raises `InvalidAwsResponse`.
        """
        token = self._read_next_token(response, _PAGE_TOKENS[self.phase])
        return replace(self, token=token, calls=self.calls + 1) if token else self.after_describe()

    def after_describe(self) -> Self:
        """Return the cursor after a described batch."""
        _, _, size = _DESCRIBE_CALLS[self.phase]
        token = "" if self.phase in _PAGE_TOKENS else self.token
        return replace(self, pending=self.pending[size:], token=token, calls=self.calls + 1)._advance_phase()

    def _read_next_token(self, response: Mapping[str, Any], name: str = "nextToken") -> str:
        return read_next_token(response, name, previous_token=self.token, call_count=self.calls)

    @property
    def _is_batch_due(self) -> bool:
        _, _, size = _DESCRIBE_CALLS[self.phase]
        return len(self.pending) >= size or (self.is_listed and bool(self.pending))

    def _advance_phase(self) -> Self:
        """Return the cursor at the next phase once this one is done."""
        if self.pending or not self.is_listed:
            return self
        next_phase = _PHASE_ORDER[_PHASE_ORDER.index(self.phase) + 1]
        if next_phase == STOPPED and self.is_follow_up:
            # Known tasks that ended were described with the running ones.
            next_phase = MACHINES
        phases = _PHASES_OF.get(self.extent, _PHASE_ORDER)
        while next_phase and next_phase not in phases:
            next_phase = _PHASE_ORDER[_PHASE_ORDER.index(next_phase) + 1]
        return replace(self, phase=next_phase, token="", is_listed=False, is_filled=False)


def get_describe_operation(phase: str) -> str:
    """Return the operation that describes in a phase."""
    return _DESCRIBE_CALLS[phase][0]
