"""Checks of a soak's history: every effect once, every line once, nothing hung, statuses true to AWS."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

# (service, operation, hash of the parameters): what a journal row and the sandbox know of a write.
WriteKey = tuple[str, str, str]
UNSENT_STATES: Final = frozenset({"PLANNED", "NOT_SENT"})
NUMBERED: Final = "numbered line "
# No step of the soak waits for longer until its next check.
LONGEST_WAIT: Final = 1200.0
# How a log states how many lines it lacks: of Slipway's limit, of a delegate's full disk or spool.
STATED_GAP: Final = re.compile(
    r"([\d,]+|One) lines? (?:of output )?(?:was|were|are) (?:not kept|lost|missing)"
)


@dataclass(frozen=True)
class ExecutionRow:
    """One execution; ages are in seconds of the database's clock."""

    id: str
    pipeline: str
    tag: str
    status: str
    outcome: str
    age: float
    is_open: bool
    overdue: float | None
    line_count: int


@dataclass(frozen=True)
class WriteRow:
    """One write of the call journal."""

    id: int
    execution: str
    key: WriteKey
    state: str


@dataclass(frozen=True)
class SandboxWrite:
    """One write that the sandbox received and did not refuse; `changed` if it had an effect.

    `is_early` marks those read before the rows, so that their rows must have been there.
    """

    number: int
    key: WriteKey
    changed: bool
    is_early: bool = True


@dataclass(frozen=True)
class LogRows:
    """Stored log of an execution: spans of its chunks, and the lines that a script numbered."""

    execution: str
    spans: Sequence[tuple[int, int]]
    texts: Sequence[str]
    # Of a step that succeeded, the numbered lines that its script wrote.
    expected: int = 0


@dataclass(frozen=True)
class ServiceState:
    """State of an ECS service in the sandbox at the end, and the executions that deployed it, in order."""

    name: str
    tag: str
    is_steady: bool
    executions: Sequence[ExecutionRow]


@dataclass(frozen=True)
class History:
    """Everything that the checker reads."""

    executions: Sequence[ExecutionRow]
    writes: Sequence[WriteRow]
    effects: Sequence[SandboxWrite]
    logs: Sequence[LogRows] = ()
    services: Sequence[ServiceState] = ()


@dataclass(frozen=True)
class Limits:
    """Longest time in seconds that an execution may be open, and that its due time may be past."""

    open: float
    overdue: float
    bad_tags: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True)
class Breach:
    """Broken promise, with the execution and the rows that show it."""

    promise: str
    execution: str
    rows: str

    def __str__(self) -> str:
        return f"{self.promise}: execution {self.execution or 'unknown'}: {self.rows}"


def check_history(history: History, limits: Limits) -> list[Breach]:
    """Return all broken promises."""
    return [
        *_check_effects(history),
        *(breach for log in history.logs for breach in _check_log(log, history.executions)),
        *_check_hung(history.executions, limits),
        *_check_statuses(history, limits),
    ]


def _check_effects(history: History) -> Iterator[Breach]:
    """Compare the writes of the journal with those of the sandbox, by service, operation and parameters."""
    rows: defaultdict[WriteKey, list[WriteRow]] = defaultdict(list)
    for row in history.writes:
        rows[row.key].append(row)
    effects: defaultdict[WriteKey, list[SandboxWrite]] = defaultdict(list)
    for effect in history.effects:
        effects[effect.key].append(effect)
    for key in rows.keys() | effects.keys():
        yield from _check_key(key, rows[key], effects[key])


def _check_key(key: WriteKey, rows: Sequence[WriteRow], writes: Sequence[SandboxWrite]) -> Iterator[Breach]:
    sent = [row for row in rows if row.state not in UNSENT_STATES]
    answered = [row for row in rows if row.state == "ANSWERED"]
    changes = [write for write in writes if write.changed]
    early = [write for write in changes if write.is_early]
    execution = rows[0].execution if rows else ""
    if len(early) > len(sent) and not rows:
        yield Breach("an effect without a row", "", _describe(key, rows, changes))
    elif len(early) > len(sent):
        yield Breach("an effect more than once", execution, _describe(key, rows, changes))
    if len(answered) > len(writes):
        yield Breach("an answered write without an effect", execution, _describe(key, rows, changes))


def _describe(key: WriteKey, rows: Sequence[WriteRow], effects: Sequence[SandboxWrite]) -> str:
    states = ", ".join(f"call {row.id} {row.state} of {row.execution}" for row in rows) or "no call"
    numbers = ", ".join(str(effect.number) for effect in effects) or "none"
    return f"{key[0]}:{key[1]}: {states}; effects in the sandbox's journal: {numbers}"


def _check_log(log: LogRows, executions: Iterable[ExecutionRow]) -> Iterator[Breach]:
    next_line = 1
    for first, last in sorted(log.spans):
        if first != next_line:
            promise = "a missing line" if first > next_line else "a line more than once"
            yield Breach(promise, log.execution, f"chunk {first}-{last} follows line {next_line - 1}")
        next_line = max(next_line, last + 1)
    count = next((row.line_count for row in executions if row.id == log.execution), next_line - 1)
    if next_line - 1 < count:
        yield Breach("a missing line", log.execution, f"{count} lines are numbered, {next_line - 1} stored")
    yield from _check_numbered(log)


def _check_numbered(log: LogRows) -> Iterator[Breach]:
    """Check the lines that a script numbered itself: each once, in order, and each gap stated."""
    numbers = [int(text.removeprefix(NUMBERED)) for text in log.texts if text.startswith(NUMBERED)]
    if doubled := [number for number, count in Counter(numbers).items() if count > 1]:
        yield Breach("a line more than once", log.execution, f"numbered lines {doubled[:10]}")
    elif numbers != sorted(numbers):
        yield Breach("lines out of order", log.execution, f"numbered lines {numbers[:20]}")
    missing = sorted(set(range(1, max([*numbers, log.expected], default=0) + 1)) - set(numbers))
    if len(missing) > (stated := sum(map(count_stated, log.texts))):
        sentence = f", {stated} of {len(missing)} stated" if stated else ""
        yield Breach("a missing line", log.execution, f"numbered lines {missing[:10]}{sentence}")


def count_stated(text: str) -> int:
    """Return how many lines a line of a log states as missing."""
    gap = STATED_GAP.match(text)
    return int(gap[1].replace(",", "").replace("One", "1")) if gap else 0


def _check_hung(executions: Iterable[ExecutionRow], limits: Limits) -> Iterator[Breach]:
    for row in executions:
        if not row.is_open:
            continue
        if row.overdue is None:
            yield Breach("a hung execution", row.id, f"{row.status}, without a due time")
        elif row.overdue > limits.overdue:
            yield Breach("a hung execution", row.id, f"{row.status}, due {row.overdue:.0f} s ago")
        elif row.overdue < -LONGEST_WAIT:
            yield Breach("a hung execution", row.id, f"{row.status}, due only in {-row.overdue:.0f} s")
        # With a limit of 0 nothing may be open, also if its server's clock was ahead.
        elif row.age > limits.open or not limits.open:
            yield Breach("a hung execution", row.id, f"{row.status}, open for {row.age:.0f} s")


def _check_statuses(history: History, limits: Limits) -> Iterator[Breach]:
    for row in history.executions:
        if row.tag in limits.bad_tags and row.status == "SUCCESS":
            yield Breach("a wrong status", row.id, f"{row.pipeline} succeeded with the image {row.tag}")
    for service in history.services:
        yield from _check_service(service)


def _check_service(service: ServiceState) -> Iterator[Breach]:
    expected = find_expected_tag(service.executions)
    last = service.executions[-1].id if service.executions else ""
    if expected is None:
        return
    if service.tag != expected:
        yield Breach("a wrong status", last, f"{service.name} runs {service.tag}, not {expected}")
    elif not service.is_steady:
        yield Breach("a wrong status", last, f"{service.name} runs {service.tag} and is not steady")


def find_expected_tag(executions: Iterable[ExecutionRow]) -> str | None:
    """Return the tag that a service must run after its executions; None if their end leaves it open."""
    tag: str | None = None
    for row in executions:
        if row.status == "SUCCESS":
            tag = row.tag
        elif row.outcome != "ROLLED_BACK":
            tag = None
    return tag


def count_history(history: History) -> Mapping[str, int]:
    """Return the counts of a report."""
    ends = Counter(f"{row.status} {row.outcome}".strip() for row in history.executions)
    return {
        "executions": len(history.executions),
        **{f"  {name}": count for name, count in sorted(ends.items())},
        "writes in the journal": len(history.writes),
        "effects in the sandbox": sum(effect.changed for effect in history.effects),
        "log lines": sum(row.line_count for row in history.executions),
        "numbered lines of scripts": sum(
            text.startswith(NUMBERED) for log in history.logs for text in log.texts
        ),
    }
