"""Which call a sync makes next, and where it goes on: a value, so that any process can take it up.

Tasks are listed by cluster, a hundred to a page, and each page is described at once: no call per service.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Self

from aws.ecs import SERVICES_PER_CALL, TASKS_PER_CALL
from guards.limits import SYNC_CALLS
from guards.text import control_fault
from instances.told import arns_of

PAGE: Final = 100
SERVICES, RUNNING, STOPPED = "services", "running", "stopped"
_FOLLOWING: Final = {SERVICES: RUNNING, RUNNING: STOPPED, STOPPED: ""}
_DESCRIBE: Final = {
    SERVICES: ("DescribeServices", "services", SERVICES_PER_CALL),
    RUNNING: ("DescribeTasks", "tasks", TASKS_PER_CALL),
    STOPPED: ("DescribeTasks", "tasks", TASKS_PER_CALL),
}
_LIST: Final = {
    SERVICES: ("ListServices", "serviceArns", {}),
    RUNNING: ("ListTasks", "taskArns", {"desiredStatus": "RUNNING"}),
    STOPPED: ("ListTasks", "taskArns", {"desiredStatus": "STOPPED"}),
}
_LONGEST_TOKEN: Final = 8192


class NoSense(Exception):
    """An answer by which nobody can go on; the message is a sentence."""


@dataclass(frozen=True)
class Question:
    """One call of ECS, and whether it lists or describes."""

    operation: str
    params: Mapping[str, Any]
    lists: bool


@dataclass(frozen=True)
class Reading:
    """How far a sync of one cluster is: what is still to be described, and whether a list goes on."""

    began: str
    phase: str = SERVICES
    pending: tuple[str, ...] = ()
    token: str = ""
    is_listed: bool = False
    calls: int = 0

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        return cls(**{**row, "pending": tuple(row["pending"])})

    def to_row(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def is_over(self) -> bool:
        return not self.phase

    def question(self, cluster: str) -> Question:
        """The next call. A full batch is described before the list goes on."""
        if not self._is_batch_due:
            operation, _, which = _LIST[self.phase]
            page = {"nextToken": self.token} if self.token else {}
            return Question(operation, {"cluster": cluster, "maxResults": PAGE, **which, **page}, lists=True)
        operation, member, size = _DESCRIBE[self.phase]
        batch = list(self.pending[:size])
        include = {"include": ["TAGS"]} if self.phase == SERVICES else {}
        return Question(operation, {"cluster": cluster, member: batch, **include}, lists=False)

    def listed(self, answer: Mapping[str, Any], *, known: Iterable[str] = ()) -> Self:
        """After a page of a list; `known` are those that need not be described again.

        Raises `NoSense` for a page after which no other can be asked for.
        """
        _, member, _ = _LIST[self.phase]
        skip, token = set(known), self._following(answer)
        new = tuple(arn for arn in arns_of(answer, member) if arn not in skip)
        return replace(
            self, pending=self.pending + new, token=token, is_listed=not token, calls=self.calls + 1
        )._settled()

    def described(self) -> Self:
        """After a batch was described."""
        _, _, size = _DESCRIBE[self.phase]
        return replace(self, pending=self.pending[size:], calls=self.calls + 1)._settled()

    def _following(self, answer: Mapping[str, Any]) -> str:
        """The token of the next page. A list cut short would end tasks that run."""
        token = answer.get("nextToken") or ""
        if not isinstance(token, str) or len(token) > _LONGEST_TOKEN or control_fault(token):
            raise NoSense("AWS named a next page by what is no token.")
        if self.calls >= SYNC_CALLS or (token and token == self.token):
            raise NoSense("The lists of this cluster come to no end.")
        return token

    @property
    def _is_batch_due(self) -> bool:
        _, _, size = _DESCRIBE[self.phase]
        return len(self.pending) >= size or (self.is_listed and bool(self.pending))

    def _settled(self) -> Self:
        """The next phase once nothing of this one is left."""
        if self.pending or not self.is_listed:
            return self
        following = _FOLLOWING[self.phase]
        return replace(self, phase=following, token="", is_listed=False)
