"""Fault injection: throttling, errors, denials, timeouts, lost responses and stale reads."""

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Event
from typing import Any

from sandbox.aws_protocol import AwsRequest
from sandbox.clock import CLOCK
from sandbox.journal import is_read

FAULT_KINDS = ("throttle", "error500", "denied", "hang", "lost_answer", "stale_reads", "refuse")
LOST_RESPONSE_KINDS = ("cut", "error500", "hang")
DEFAULT_HANG_SECONDS = 30.0


class InvalidFault(ValueError):
    """A fault request that is not valid."""


@dataclass
class InjectedFault:
    """A fault for the calls it selects, until its count or time is used up."""

    kind: str
    service: str = ""
    operation: str = ""
    count: int | None = None
    until: float | None = None
    seconds: float | None = None
    lost_as: str = "cut"
    snapshot: bytes = b""
    hits: int = 0

    def selects(self, call: AwsRequest) -> bool:
        if self.service and self.service != call.service:
            return False
        if self.operation and self.operation != call.operation:
            return False
        return self.kind != "stale_reads" or is_read(call.operation)

    @property
    def is_spent(self) -> bool:
        return (self.count is not None and self.hits >= self.count) or (
            self.until is not None and CLOCK.elapsed >= self.until
        )

    def to_wire(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "snapshot"}


class InjectedFaults:
    """The active faults; the first one that selects a call applies."""

    def __init__(self) -> None:
        self.active: list[InjectedFault] = []
        self.released = Event()

    def add(self, record: Mapping[str, Any], snapshot: bytes = b"") -> InjectedFault:
        fault = parse_fault(record, snapshot)
        self.active.append(fault)
        return fault

    def strike(self, call: AwsRequest) -> InjectedFault | None:
        self.active = [f for f in self.active if not f.is_spent]
        fault = next((f for f in self.active if f.selects(call)), None)
        if fault is not None:
            fault.hits += 1
        return fault

    def clear(self) -> None:
        """End all faults, and release hanging calls."""
        self.active.clear()
        self.released.set()
        self.released = Event()


def parse_fault(record: Mapping[str, Any], snapshot: bytes = b"") -> InjectedFault:
    """Parse a fault from the JSON of a request.

    `seconds` is the fault's duration in sandbox time. For `hang` and `refuse` it is real time: the delay of
    the call, or the time without a listener. Without `count` and `seconds` a fault lasts until it is cleared.
    Raises `InvalidFault`.
    """
    kind = record.get("kind")
    if kind not in FAULT_KINDS:
        raise InvalidFault(f"kind is one of {', '.join(FAULT_KINDS)}, not {kind!r}")
    if record.get("as", "cut") not in LOST_RESPONSE_KINDS:
        raise InvalidFault(f"as is one of {', '.join(LOST_RESPONSE_KINDS)}, not {record['as']!r}")
    seconds, count = (_read_number(record, name) for name in ("seconds", "count"))
    lasting = None if kind in ("hang", "refuse") or record.get("as") == "hang" else seconds
    return InjectedFault(
        kind=kind,
        service=record.get("service") or "",
        operation=record.get("operation") or "",
        count=None if count is None else int(count),
        until=None if lasting is None else CLOCK.elapsed + lasting,
        seconds=seconds,
        lost_as=record.get("as", "cut"),
        snapshot=snapshot,
    )


def _read_number(record: Mapping[str, Any], name: str) -> float | None:
    value = record.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise InvalidFault(f"{name} is a number from 0 up, not {value!r}")
    return float(value)
