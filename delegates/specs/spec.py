"""What the generator hands out: files by name, commands with titles, and what to know before using them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

# Where a command belongs: finding ids, permissions of deployments, creating, looking whether it came up,
# a newer image, finding out why it did not.
Group = Literal["find", "permissions", "create", "verify", "update", "diagnose"]


@dataclass(frozen=True)
class Command:
    """One line for a shell, and what it is for."""

    title: str
    command: str
    group: Group = "create"

    def as_record(self) -> dict[str, str]:
        return {"title": self.title, "command": self.command}


@dataclass(frozen=True)
class Spec:
    """A delegate's files and commands; `task_definition` and `service` are empty for Docker."""

    files: Mapping[str, str]
    commands: tuple[Command, ...]
    warnings: tuple[str, ...] = ()
    task_definition: Mapping[str, Any] = field(default_factory=dict)
    service: Mapping[str, Any] = field(default_factory=dict)

    def of(self, *groups: Group) -> list[Command]:
        """The commands of some groups, in the order to run them."""
        return [one for one in self.commands if one.group in groups]
