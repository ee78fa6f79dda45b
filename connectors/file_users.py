"""Who refers to a file of the file store: apps above this one say so by entering a finder here."""

from collections.abc import Callable
from dataclasses import dataclass

from connectors.models import FileNode
from rbac.policy import Principal
from web.problems import Conflict

_MOST_NAMED = 5


@dataclass(frozen=True)
class FileUser:
    """Something that refers to a file, as a page links to it."""

    title: str
    url: str


@dataclass(frozen=True)
class FileUsers:
    """What refers to a file or folder: what the reader may see by name, the rest as a number."""

    shown: tuple[FileUser, ...] = ()
    hidden: int = 0

    def __bool__(self) -> bool:
        return bool(self.shown or self.hidden)

    def __str__(self) -> str:
        named = [user.title for user in self.shown[:_MOST_NAMED]]
        rest = len(self.shown) - len(named) + self.hidden
        return " and ".join(part for part in (", ".join(named), f"{rest} more" if rest else "") if part)


class FileUsed(Conflict):
    """The file cannot go away: something refers to it by its path."""

    code = "file_used"


Finder = Callable[[FileNode, Principal], FileUsers]
_finders: list[Finder] = []


def file_users(finder: Finder) -> Finder:
    """Enter a function that finds what refers to a file or to anything in a folder."""
    _finders.append(finder)
    return finder


def users_of(node: FileNode, principal: Principal) -> FileUsers:
    """Everything that refers to a file or folder, by name as far as `principal` may see it."""
    found = [finder(node, principal) for finder in _finders]
    return FileUsers(tuple(user for one in found for user in one.shown), sum(one.hidden for one in found))


def refuse_used(node: FileNode, principal: Principal) -> None:
    """Do nothing where nothing refers to the file. Raises `FileUsed`."""
    if users := users_of(node, principal):
        raise FileUsed(
            f"{node.path} is still referred to by {users}. Change it there first, or say that you want this "
            "although they will no longer find it."
        )
