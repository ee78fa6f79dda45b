"""The events of an ECS service as lines of the log, each once (R204, R205)."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from aws.types import EcsService
from deployments.engine.shared import Shared
from deployments.models import AwsEvent


def new_events(shared: Shared, before: Mapping[str, Any] | None, service: EcsService) -> Iterator[str]:
    """The lines of events that this execution has not shown, oldest first.

    AWS returns the last hundred, told apart by id; those from before the step are not ours to show.
    """
    old = set((before or {}).get("newest_events", ()))
    for event in reversed(service.events):
        if event.id in old or event.id in shared.known_events or event.at is None:
            continue
        shared.keep_event(
            AwsEvent(
                execution=shared.execution,
                event_id=event.id,
                ecs_service=service.arn,
                at=event.at,
                message=event.message,
            )
        )
        yield f"# AWS Event: {_stamp(event.at)} {event.message}"


def _stamp(at: datetime) -> str:
    """The moment with milliseconds, without trailing zeros, as `2022-10-06 23:05:02.54`."""
    utc = at.astimezone(UTC)
    fraction = f"{utc.microsecond // 1000:03d}".rstrip("0") or "0"
    return f"{utc:%Y-%m-%d %H:%M:%S}.{fraction}"
