"""What roles give to many people, read once: for those who ask about all that is open in a process."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db.models import Model, Q

from rbac.models import ResourceGroupEntry, RoleAssignment, RolePermission, Scope, User
from rbac.permissions import ALWAYS_GRANTED, PERMISSIONS, SHARED_VIEWS
from rbac.policy.principals import current
from rbac.policy.things import scope_path
from rbac.policy.tree import live

_ACTIVE = Q(is_active=True) & (Q(kind=User.Kind.PERSON) | live("service_account__scope__"))


@dataclass(frozen=True)
class Place:
    """Where a thing hangs, and what resource groups call it, by kind of resource."""

    scope_id: int
    names: Mapping[str, str]


def places_of(model: type[Model], keys: Collection[Any]) -> dict[Any, Place]:
    """Return the places of the rows of `model` with these keys that there are; one query."""
    paths: dict[str, str] = getattr(model, "RESOURCE_PATHS", {})
    columns = (f"{scope_path(model)}__pk", *paths.values())
    rows = model._default_manager.filter(pk__in=list(keys)).values_list("pk", *columns)
    return {pk: Place(scope_id, dict(zip(paths, names, strict=True))) for pk, scope_id, *names in rows}


class _Assigned(NamedTuple):
    role_id: int
    scope_id: int
    group_id: int | None


class Grants:
    """The answers of `permissions_at` and `scopes_where` for many people, in six queries however many.

    Raises `ValueError` for somebody who came with a narrowed API key: of keys it knows nothing.
    """

    def __init__(self, people: Iterable[User]) -> None:
        asked = list(people)
        if any(one.key_limits is not None for one in asked):
            raise ValueError("Only people who came without an API key can be asked about together")
        self._assigned = _assigned_to([one.pk for one in asked])
        flat = {one for each in self._assigned.values() for one in each}
        self._permissions = _permissions_of({one.role_id for one in flat})
        self._entries = _entries_of({one.group_id for one in flat if one.group_id is not None})
        self._above = scope_lines()
        self._where: dict[tuple[str, frozenset[int]], frozenset[int]] = {}

    def permissions_at(self, person: User, place: Place) -> frozenset[str]:
        """Return every permission that the person has on what is at `place`."""
        over: set[str] = set()
        seen: set[str] = set()
        above = self._above.get(place.scope_id, ())
        for one in self._assigned.get(person.pk, ()) if above else ():
            if one.scope_id in above:
                over |= self._given(one, place.names)
            elif place.scope_id in self._above.get(one.scope_id, ()):
                seen |= self._given(one, place.names)
        return frozenset(over | (seen & SHARED_VIEWS))

    def scopes_where(self, person: User, permission: str) -> frozenset[int]:
        """Return the keys of the scopes where `permission` is granted on everything of its kind."""
        mine = self._assigned.get(person.pk, ())
        at = frozenset(one.scope_id for one in mine if permission in self._given(one, {}))
        if (permission, at) not in self._where:
            self._where[permission, at] = frozenset(self._reached(at, is_shared=permission in SHARED_VIEWS))
        return self._where[permission, at]

    def _reached(self, at: frozenset[int], *, is_shared: bool) -> Iterator[int]:
        yield from (pk for pk, above in self._above.items() if not at.isdisjoint(above))
        if is_shared:
            yield from (up for pk in at for up in self._above.get(pk, ()))

    def _given(self, one: _Assigned, names: Mapping[str, str]) -> set[str]:
        """What an assignment gives, where it reaches, on what has these names; without any on everything."""
        found = self._permissions[one.role_id]
        if one.group_id is not None:
            entries = self._entries[one.group_id]
            kinds = {kind for kind, name in entries if not name or names.get(kind) == name}
            found = {each for each in found if PERMISSIONS[each].resource in kinds}
        return found | {ALWAYS_GRANTED}


def _assigned_to(people: list[int]) -> dict[int, set[_Assigned]]:
    """The assignments that count now, by person: their own, and those of their groups."""
    active = User.objects.filter(_ACTIVE, pk__in=people).values("pk")
    columns = ("role_id", "scope_id", "resource_group_id")
    counting = RoleAssignment.objects.filter(current())
    own = counting.filter(user__in=active).values_list("user_id", *columns)
    by_group = counting.filter(group__users__in=active).values_list("group__users", *columns)
    found: dict[int, set[_Assigned]] = defaultdict(set)
    for rows in (own, by_group):
        for person, *one in rows:
            found[person].add(_Assigned(*one))
    return found


def _permissions_of(roles: Collection[int]) -> dict[int, set[str]]:
    found: dict[int, set[str]] = defaultdict(set)
    rows = RolePermission.objects.filter(role__in=roles).values_list("role_id", "permission")
    for role_id, permission in rows:
        if permission in PERMISSIONS:
            found[role_id].add(permission)
    return found


def _entries_of(groups: Collection[int]) -> dict[int, set[tuple[str, str]]]:
    found: dict[int, set[tuple[str, str]]] = defaultdict(set)
    rows = ResourceGroupEntry.objects.filter(group__in=groups).values_list(
        "group_id", "resource", "identifier"
    )
    for group_id, *entry in rows:
        found[group_id].add((entry[0], entry[1]))
    return found


def scope_lines() -> dict[int, tuple[int, ...]]:
    """Each scope that is not archived, with itself and those above it."""
    rows = Scope.objects.filter(live()).values_list("pk", "parent_id", "parent__parent_id")
    return {pk: tuple(one for one in (pk, *above) if one is not None) for pk, *above in rows}
