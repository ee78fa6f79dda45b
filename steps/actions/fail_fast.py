"""When a deployment that goes wrong is given up before AWS or the step's time-out would (P03, N03)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from guards.limits import FAIL_FAST_MINUTES, FAIL_FAST_TASKS, STABLE_SECONDS
from steps.expressions import has_expression


class BadSetting(ValueError):
    """A setting of a step cannot be; `path` is where it stands below the step's spec."""

    def __init__(self, message: str, path: tuple[str, ...]) -> None:
        super().__init__(message)
        self.message = message
        self.path = path


@dataclass(frozen=True)
class FailFast:
    """What ends a deployment early; the defaults are those of every step that says nothing."""

    failedTasks: int = 3
    """After so many failed tasks of the deployment with none ever healthy; 0 is never."""
    minutesWithoutHealthyTask: int = 0
    """After so many minutes without a healthy new task; 0 is never."""
    onFatalReason: bool = True
    """At the first task that failed for a reason no retry mends, such as an image that does not exist."""
    stableSeconds: int = 10
    """For how long no task may fail after ECS reports a deployment completed, where nothing checks the tasks.

    Not waited for behind a load balancer, and where a container has a health check; 0 is at once.
    """

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """Read what a pipeline says under `failFast`; expressions count as right.

        Raises `BadSetting` that names the field.
        """
        if not isinstance(values, Mapping):
            raise BadSetting(f"failFast must be a mapping, not {values!r}", ("failFast",))
        for name in values:
            if name not in cls.__dataclass_fields__:
                known = ", ".join(cls.__dataclass_fields__)
                raise BadSetting(f"failFast has no field {name}; it has {known}", ("failFast", str(name)))
        settled = {
            name: value
            for name, value in values.items()
            if not (isinstance(value, str) and has_expression(value))
        }
        for name, most in (
            ("failedTasks", FAIL_FAST_TASKS),
            ("minutesWithoutHealthyTask", FAIL_FAST_MINUTES),
            ("stableSeconds", STABLE_SECONDS),
        ):
            _refuse_other_than_number(name, settled.get(name, 0), most)
        fatal = settled.get("onFatalReason", True)
        if not isinstance(fatal, bool):
            place = ("failFast", "onFatalReason")
            raise BadSetting(f"onFatalReason of failFast must be true or false, not {fatal!r}", place)
        return cls(**settled)


def _refuse_other_than_number(name: str, value: object, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise BadSetting(
            f"{name} of failFast must be a whole number from 0 to {most}, not {value!r}",
            ("failFast", name),
        )
