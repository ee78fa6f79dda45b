"""How far tasks of this process are kept apart, and what is hidden from them."""

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path


class CannotIsolate(Exception):
    """A command could not be started apart from the others; the text says what was refused."""


class Level(StrEnum):
    """What keeps one task from another, the strongest first; these words are reported to the manager."""

    USERS_AND_NAMESPACES = "users_and_namespaces"
    USERS = "users"
    NAMESPACES = "namespaces"
    NONE = "none"

    @property
    def has_users(self) -> bool:
        """Whether each task has a user of its own."""
        return self in (Level.USERS_AND_NAMESPACES, Level.USERS)

    @property
    def has_namespaces(self) -> bool:
        """Whether each task has mounts, process ids and System V IPC of its own."""
        return self in (Level.USERS_AND_NAMESPACES, Level.NAMESPACES)


@dataclass(frozen=True)
class Isolation:
    """The level that works here, and folders of the program itself that namespaces hide from tasks."""

    level: Level
    hidden: tuple[Path, ...] = ()

    def hiding(self, *folders: Path) -> "Isolation":
        """Return the same with more folders hidden."""
        return replace(self, hidden=(*self.hidden, *folders))
