"""What the scope switcher offers: the scopes that the reader belongs to, as a tree or as found by name."""

from dataclasses import dataclass
from typing import NamedTuple

from django.db.models import Q

from rbac.models import Scope
from rbac.policy import Principal, scopes_of_member

# With more than these, one looks for a scope by its name.
MOST_OFFERED = 20
MOST_SOUGHT = 128


class Choice(NamedTuple):
    """A scope and how deep it lies below those offered with it: 0, 1 or 2."""

    scope: Scope
    depth: int


@dataclass(frozen=True)
class Choices:
    """The first scopes, parents before children, and whether there are more."""

    shown: tuple[Choice, ...]
    are_more: bool


def choices(principal: Principal, sought: str = "") -> Choices:
    """Return the scopes to choose from, those named like `sought` where that is given; one query."""
    found = scopes_of_member(principal)
    if sought := sought.strip()[:MOST_SOUGHT]:
        found = found.filter(Q(name__icontains=sought) | Q(identifier__icontains=sought))
    scopes = list(found.order_by("path")[: MOST_OFFERED + 1])
    # Databases differ in where they sort a slash.
    shown = sorted(scopes[:MOST_OFFERED], key=lambda one: one.path.split("/"))
    offered = tuple(Choice(one, 0 if sought else one.path.count("/")) for one in shown)
    return Choices(offered, are_more=len(scopes) > MOST_OFFERED)
