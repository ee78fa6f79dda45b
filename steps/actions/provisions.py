"""What was made by programs such as Terraform, as actions see it: the configuration behind it, and plans."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class Applied:
    """A configuration that was applied with success: `used` are the parameters of that run, without secrets.

    `by` says which execution it was.
    """

    id: str
    used: Mapping[str, Any] = field(repr=False)
    by: str = ""


@dataclass(frozen=True)
class Planned:
    """A plan that is kept for the step that is to apply it; None where only a run can know of what sort."""

    id: str
    used: Mapping[str, Any] = field(repr=False)
    destroys: bool | None = False


class Provisions(Protocol):
    """What this scope has applied, by the provisioner's identifier; changes are kept with the action."""

    def latest(self, identifier: str) -> Applied | None:
        """What is applied now, as far as Slipway knows."""
        ...

    def find(self, applied_id: str) -> Applied | None:
        """One of those that were applied, also where it was destroyed since."""
        ...

    def keep(self, identifier: str, used: Mapping[str, Any]) -> str:
        """Note what this step has applied; gives back the id of the note, the same each time."""
        ...

    def forget(self, identifier: str, *, after: str = "") -> None:
        """Note that nothing is left of what was applied, or nothing of what came after one of them."""
        ...

    def keep_plan(self, identifier: str, used: Mapping[str, Any], content: str, *, destroys: bool) -> None:
        """Keep a plan, base64, until it is applied, or too old."""
        ...

    def plan(self, identifier: str) -> Planned | None:
        """The newest plan that a step of this execution has made and nobody has applied."""
        ...

    def free_plan(self, plan_id: str) -> None:
        """Drop what a plan holds: it was used."""
        ...
