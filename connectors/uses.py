"""Who uses a file, a connector or a secret: apps above this one say so by entering a finder here."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from django.urls import reverse

from connectors.models import Connector, FileNode, Secret
from rbac.policy import Principal, visible_to
from web.problems import Conflict

_MOST_NAMED = 5

Thing = FileNode | Connector | Secret


@dataclass(frozen=True)
class Use:
    """Something that uses a thing, as a page links to it."""

    title: str
    url: str


@dataclass(frozen=True)
class Uses:
    """What uses a thing: what the reader may see by name, the rest as a number."""

    shown: tuple[Use, ...] = ()
    hidden: int = 0

    def __bool__(self) -> bool:
        return bool(self.shown or self.hidden)

    def __str__(self) -> str:
        named = [use.title for use in self.shown[:_MOST_NAMED]]
        rest = len(self.shown) - len(named) + self.hidden
        return " and ".join(part for part in (", ".join(named), f"{rest} more" if rest else "") if part)


class StillUsed(Conflict):
    """The thing cannot go away: something still uses it."""

    code = "still_used"


Finder = Callable[[Thing, Principal], Uses]
_finders: list[Finder] = []


def uses(finder: Finder) -> Finder:
    """Enter a function that finds what uses a thing; of other kinds of things it finds nothing."""
    _finders.append(finder)
    return finder


def uses_of(thing: Thing, principal: Principal) -> Uses:
    """Everything that uses a thing, by name as far as `principal` may see it."""
    found = [finder(thing, principal) for finder in _finders]
    return Uses(_all(one.shown for one in found), sum(one.hidden for one in found))


@uses
def connectors_with(thing: Thing, principal: Principal) -> Uses:
    """The connectors that use a secret."""
    if not isinstance(thing, Secret):
        return Uses()
    found = Connector.objects.filter(secret=thing).select_related("scope")
    seen = visible_to(principal, "core_connector_view", found).order_by("scope__path", "identifier")
    shown = tuple(Use(f"connector {one.name}", reverse("connector", args=[one.pk])) for one in seen)
    return Uses(shown, hidden=found.count() - len(shown))


def refuse_used_file(node: FileNode, principal: Principal) -> None:
    """Do nothing where nothing refers to the file. Raises `StillUsed`."""
    if found := uses_of(node, principal):
        raise StillUsed(
            f"{node.path} is still referred to by {found}. Change it there first, or say that you want this "
            "although they will no longer find it."
        )


def _all(shown: Iterable[tuple[Use, ...]]) -> tuple[Use, ...]:
    return tuple(use for one in shown for use in one)
