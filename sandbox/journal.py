"""Journal of AWS calls that reached the sandbox."""

import json
from collections import deque
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sandbox.clock import CLOCK

MAX_ENTRIES = 50_000
MAX_SAVED_ENTRIES = 2_000
PAGE_SIZE = 10_000
READ_PREFIXES = (
    "Describe",
    "List",
    "Get",
    "Filter",
    "Lookup",
    "Search",
    "Head",
    "BatchGet",
    "AssumeRole",
    "Simulate",
)

_changed: ContextVar[bool] = ContextVar("changed", default=True)


def mark_unchanged() -> None:
    """Mark the current call as one without a change (a repeated token, equal values)."""
    _changed.set(False)


def is_read(operation: str) -> bool:
    return operation.startswith(READ_PREFIXES)


@dataclass(frozen=True)
class JournalEntry:
    """Journal entry of one call; `params` is JSON text, because most entries are never read."""

    number: int
    at: str
    service: str
    operation: str
    region: str
    account: str
    params: str
    effect: bool
    error: str
    fault: str
    # The access key of the caller, which identifies the client.
    key: str = ""

    def to_wire(self) -> dict[str, Any]:
        return {**self.__dict__, "params": json.loads(self.params)}


class SandboxJournal:
    """Journal of AWS calls in the order of execution; the oldest are dropped."""

    def __init__(self) -> None:
        self.entries: deque[JournalEntry] = deque(maxlen=MAX_ENTRIES)
        self.last_number = 0

    def begin(self) -> None:
        _changed.set(True)

    def add(
        self,
        *,
        service: str,
        operation: str,
        region: str,
        account: str,
        params: Mapping[str, Any],
        error: str = "",
        fault: str = "",
        key: str = "",
    ) -> JournalEntry:
        self.last_number += 1
        entry = JournalEntry(
            number=self.last_number,
            at=CLOCK.now().isoformat(),
            service=service,
            operation=operation,
            region=region,
            account=account,
            params=json.dumps(params, separators=(",", ":"), default=str),
            effect=not error and not is_read(operation) and _changed.get(),
            error=error,
            fault=fault,
            key=key,
        )
        self.entries.append(entry)
        return entry

    def after(self, number: int, limit: int = PAGE_SIZE) -> list[dict[str, Any]]:
        if not self.entries:
            return []
        first = max(number + 1 - self.entries[0].number, 0)
        return [entry.to_wire() for entry in islice(self.entries, first, first + limit)]

    def reset(self) -> None:
        self.entries.clear()

    def to_record(self) -> dict[str, Any]:
        return {"last_number": self.last_number, "entries": list(self.entries)[-MAX_SAVED_ENTRIES:]}

    def restore(self, record: dict[str, Any]) -> None:
        self.last_number = int(record["last_number"])
        self.entries.extend(record["entries"])
