"""Permissions of many users, loaded in a constant number of queries."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db.models import Model, Q

from rbac.models import ResourceGroupEntry, RoleAssignment, RolePermission, Scope, User
from rbac.permissions import ALWAYS_GRANTED, PERMISSIONS, SHARED_VIEW_PERMISSIONS
from rbac.policy.principals import build_validity_filter, list_valid_assignments
from rbac.policy.resources import get_scope_path
from rbac.policy.scope_tree import build_not_archived_filter

_ACTIVE_USERS = Q(is_active=True) & (
    Q(kind=User.Kind.PERSON) | build_not_archived_filter("service_account__scope__")
)


@dataclass(frozen=True)
class ResourceLocation:
    """Scope of a resource, and its identity in resource groups by type."""

    scope_id: int
    names: Mapping[str, str]


def get_resource_locations(model: type[Model], keys: Collection[Any]) -> dict[Any, ResourceLocation]:
    """Return the locations of existing rows of `model` with these keys; one query."""
    paths: dict[str, str] = getattr(model, "RESOURCE_PATHS", {})
    columns = (f"{get_scope_path(model)}__pk", *paths.values())
    rows = model._default_manager.filter(pk__in=list(keys)).values_list("pk", *columns)
    return {
        pk: ResourceLocation(scope_id, dict(zip(paths, names, strict=True))) for pk, scope_id, *names in rows
    }


class _AssignmentKey(NamedTuple):
    role_id: int
    scope_id: int
    group_id: int | None


_COLUMNS = ("role_id", "scope_id", "resource_group_id")
_ByPerson = dict[int, set[_AssignmentKey]]
_ByRole = dict[int, set[str]]


class Grants:
    """Permissions of many people, in four queries.

    Raises `ValueError` for people who use a limited API key.
    """

    def __init__(self, people: Iterable[User]) -> None:
        asked = list(people)
        if any(one.key_limits is not None for one in asked):
            raise ValueError("Only people who came without an API key can be asked about together")
        self._assigned, self._permissions = (
            _load_for_one(asked[0]) if len(asked) == 1 else _load_for_many(asked)
        )
        flat = {one for each in self._assigned.values() for one in each}
        self._entries = _load_group_entries({one.group_id for one in flat if one.group_id is not None})
        self._above = get_scope_ancestors()
        self._where: dict[tuple[str, frozenset[int]], frozenset[int]] = {}

    def get_permissions(self, person: User, place: ResourceLocation) -> frozenset[str]:
        """Return all permissions of the person on the resource at `place`."""
        over: set[str] = set()
        seen: set[str] = set()
        above = self._above.get(place.scope_id, ())
        for one in self._assigned.get(person.pk, ()) if above else ():
            if one.scope_id in above:
                over |= self._given(one, place.names)
            elif place.scope_id in self._above.get(one.scope_id, ()):
                seen |= self._given(one, place.names)
        return frozenset(over | (seen & SHARED_VIEW_PERMISSIONS))

    def get_permitted_scope_ids(self, person: User, permission: str) -> frozenset[int]:
        """Return the keys of the scopes where `permission` is granted on everything of its kind."""
        mine = self._assigned.get(person.pk, ())
        at = frozenset(one.scope_id for one in mine if permission in self._given(one, {}))
        if (permission, at) not in self._where:
            self._where[permission, at] = frozenset(
                self._reached(at, is_shared=permission in SHARED_VIEW_PERMISSIONS)
            )
        return self._where[permission, at]

    def get_permitted_names(self, person: User, permission: str) -> dict[frozenset[int], set[str]]:
        """Return the resource group identities with `permission`, by their scopes."""
        found: dict[frozenset[int], set[str]] = defaultdict(set)
        kind, is_shared = PERMISSIONS[permission].resource, permission in SHARED_VIEW_PERMISSIONS
        for one in self._assigned.get(person.pk, ()):
            if one.group_id is not None and permission in self._permissions[one.role_id]:
                names = {name for of, name in self._entries[one.group_id] if of == kind and name}
                if names:
                    reached = self._reached(frozenset({one.scope_id}), is_shared=is_shared)
                    found[frozenset(reached)] |= names
        return found

    def get_member_scope_ids(self, person: User) -> frozenset[int]:
        """Return the keys of the scopes that the person belongs to, as `list_member_scopes`."""
        at = frozenset(one.scope_id for one in self._assigned.get(person.pk, ()))
        return frozenset(self._reached(at, is_shared=True))

    def permissions_anywhere(self, person: User) -> frozenset[str]:
        """Return every permission that the person has on anything in any scope."""
        found: set[str] = set()
        for one in self._assigned.get(person.pk, ()):
            if one.scope_id in self._above:
                names = dict(self._entries[one.group_id]) if one.group_id is not None else {}
                found |= self._given(one, names)
        return frozenset(found)

    def has_names(self, person: User) -> bool:
        """Return whether resource groups of the person list single resources."""
        groups = {one.group_id for one in self._assigned.get(person.pk, ()) if one.group_id is not None}
        return any(name for group in groups for _, name in self._entries[group])

    def below(self, scope: int) -> frozenset[int]:
        """Return the keys of the scope and of all below it that are not archived."""
        return frozenset(pk for pk, above in self._above.items() if scope in above)

    def _reached(self, at: frozenset[int], *, is_shared: bool) -> Iterator[int]:
        yield from (pk for pk, above in self._above.items() if not at.isdisjoint(above))
        if is_shared:
            yield from (up for pk in at for up in self._above.get(pk, ()))

    def _given(self, one: _AssignmentKey, names: Mapping[str, str]) -> set[str]:
        """Return the permissions of the matching assignments; without names, of unlimited assignments."""
        found = self._permissions[one.role_id]
        if one.group_id is not None:
            entries = self._entries[one.group_id]
            kinds = {kind for kind, name in entries if not name or names.get(kind) == name}
            found = {each for each in found if PERMISSIONS[each].resource in kinds}
        return found | {ALWAYS_GRANTED}


def _load_for_one(person: User) -> tuple[_ByPerson, _ByRole]:
    """Return the active assignments with the permissions of their roles, in one query for one person."""
    assigned: _ByPerson = defaultdict(set)
    permissions: _ByRole = defaultdict(set)
    rows = list_valid_assignments(person).values_list(*_COLUMNS, "role__permissions__permission")
    for role_id, scope_id, group_id, permission in rows:
        assigned[person.pk].add(_AssignmentKey(role_id, scope_id, group_id))
        if permission in PERMISSIONS:
            permissions[role_id].add(permission)
    return assigned, permissions


def _load_for_many(people: Iterable[User]) -> tuple[_ByPerson, _ByRole]:
    """Return the active assignments with the permissions of their roles, in two queries for many people."""
    assigned = _load_assignments([one.pk for one in people])
    return assigned, _load_role_permissions({one.role_id for each in assigned.values() for one in each})


def _load_assignments(people: list[int]) -> _ByPerson:
    """Return the assignments that count now, by person: their own, and those of their groups."""
    active = User.objects.filter(_ACTIVE_USERS, pk__in=people).values("pk")
    counting = RoleAssignment.objects.filter(build_validity_filter())
    own = counting.filter(user__in=active).values_list("user_id", *_COLUMNS)
    by_group = counting.filter(group__users__in=active).values_list("group__users", *_COLUMNS)
    found: _ByPerson = defaultdict(set)
    for person, *one in own.union(by_group):
        found[person].add(_AssignmentKey(*one))
    return found


def _load_role_permissions(roles: Collection[int]) -> _ByRole:
    found: _ByRole = defaultdict(set)
    rows = RolePermission.objects.filter(role__in=roles).values_list("role_id", "permission")
    for role_id, permission in rows:
        if permission in PERMISSIONS:
            found[role_id].add(permission)
    return found


def _load_group_entries(groups: Collection[int]) -> dict[int, set[tuple[str, str]]]:
    found: dict[int, set[tuple[str, str]]] = defaultdict(set)
    rows = ResourceGroupEntry.objects.filter(group__in=groups).values_list(
        "group_id", "resource", "identifier"
    )
    for group_id, *entry in rows:
        found[group_id].add((entry[0], entry[1]))
    return found


def get_scope_ancestors() -> dict[int, tuple[int, ...]]:
    """Return the active scopes, each with itself and its ancestors."""
    rows = Scope.objects.filter(build_not_archived_filter()).values_list(
        "pk", "parent_id", "parent__parent_id"
    )
    return {pk: tuple(one for one in (pk, *above) if one is not None) for pk, *above in rows}
