"""Permissions of principals, loaded in a constant number of queries: the one authorization rule."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

from django.db.models import Model, Q, QuerySet

from rbac.models import ApiKeyLimits, ResourceGroupEntry, RoleAssignment, RolePermission, User
from rbac.permissions import ALWAYS_GRANTED, PERMISSIONS, SHARED_VIEW_PERMISSIONS
from rbac.policy.compiled_queries import ANY_KEY, ANY_MOMENT, fetch_compiled
from rbac.policy.principals import (
    Principal,
    build_validity_filter,
    get_key_limits,
    get_key_scope,
    is_allowed_by_key,
    list_valid_assignments,
)
from rbac.policy.resources import get_scope_path
from rbac.policy.scope_tree import Lineage, build_not_archived_filter, get_scope_lineages

# Above this number of scopes, one condition in the database is cheaper.
MOST_SCOPE_IDS: Final = 1_000

ACTIVE_USERS = Q(is_active=True) & (
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


@dataclass(frozen=True)
class Reach:
    """Active scopes: `roots` with all scopes below them, and `singles` without."""

    roots: frozenset[int] = frozenset()
    singles: frozenset[int] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.roots or self.singles)


class _Assignment(NamedTuple):
    role_id: int
    group_id: int | None
    # Of its scope; empty where that is archived.
    lineage: Lineage


_LINEAGE_COLUMNS = tuple(
    f"scope__{way}{column}"
    for column in ("pk", "archived_at")
    for way in ("", "parent__", "parent__parent__")
)
_COLUMNS = ("role_id", "resource_group_id", *_LINEAGE_COLUMNS)
_ByPerson = dict[int | None, set[_Assignment]]
_ByRole = dict[int, set[str]]


class Grants:
    """Permissions of principals at one moment, within the limits of the API keys that they use.

    It takes two to four queries for any number of principals and resources. With `reads_scopes_singly`, it
    reads the scope of each question instead of the scope tree.
    """

    def __init__(self, principals: Iterable[Principal], *, reads_scopes_singly: bool = False) -> None:
        principal_list = list(principals)
        self._assigned, self._permissions = (
            _load_for_one(principal_list[0]) if len(principal_list) == 1 else _load_for_many(principal_list)
        )
        groups = {assignment.group_id for each in self._assigned.values() for assignment in each}
        self._entries = _load_group_entries({pk for pk in groups if pk is not None})
        self._reads_scopes_singly = reads_scopes_singly
        self._scope_ids: dict[Reach, frozenset[int]] = {}

    def get_permissions(self, principal: Principal, place: ResourceLocation) -> frozenset[str]:
        """Return all permissions of the principal on the resource at `place`."""
        lineage = self._get_lineage(place.scope_id)
        over: set[str] = set()
        shared: set[str] = set()
        for assignment in self._assigned.get(principal.pk, ()) if lineage else ():
            if assignment.lineage and assignment.lineage[0] in lineage:
                over |= self._list_permissions(assignment, place.names)
            elif place.scope_id in assignment.lineage:
                shared |= self._list_permissions(assignment, place.names)
        key = get_key_scope(principal)
        if key is not None and key not in lineage:
            over, shared = set(), over | shared if place.scope_id in self._get_lineage(key) else set()
        return _filter_by_key(principal, over | (shared & SHARED_VIEW_PERMISSIONS))

    def get_permissions_over_scope(self, principal: Principal, scope: int) -> frozenset[str]:
        """Return all permissions of the principal on every resource at `scope` and below.

        Unlike `get_permissions`, view permissions from shared scopes are left out: this is the set that the
        principal may grant.
        """
        lineage, key = self._get_lineage(scope), get_key_scope(principal)
        if key is not None and key not in lineage:
            return frozenset()
        over: set[str] = set()
        for assignment in self._assigned.get(principal.pk, ()):
            if assignment.lineage and assignment.lineage[0] in lineage:
                over |= self._list_permissions(assignment, {})
        return _filter_by_key(principal, over)

    def get_permissions_anywhere(self, principal: Principal) -> frozenset[str]:
        """Return every permission that the principal has on any resource in any scope."""
        permissions: set[str] = set()
        for assignment in self._assigned.get(principal.pk, ()):
            if assignment.lineage:
                names = dict(self._entries[assignment.group_id]) if assignment.group_id is not None else {}
                permissions |= self._list_permissions(assignment, names)
        return _filter_by_key(principal, permissions)

    def get_reach(self, principal: Principal, permission: str) -> Reach:
        """Return the scopes where `permission` is granted on all resources of its type."""
        assigned = self._assigned.get(principal.pk, ())
        lineages = [
            assignment.lineage
            for assignment in assigned
            if permission in self._list_permissions(assignment, {})
        ]
        return self._narrow_by_key(principal, permission, lineages)

    def get_reaches_by_name(self, principal: Principal, permission: str) -> dict[Reach, set[str]]:
        """Return the names of single resources with `permission`, by the scopes where they have it."""
        names_by_reach: dict[Reach, set[str]] = defaultdict(set)
        kind = PERMISSIONS[permission].resource
        for assignment in self._assigned.get(principal.pk, ()):
            if assignment.group_id is not None and permission in self._permissions[assignment.role_id]:
                names = {name for of, name in self._entries[assignment.group_id] if of == kind and name}
                if names and (reach := self._narrow_by_key(principal, permission, [assignment.lineage])):
                    names_by_reach[reach] |= names
        return names_by_reach

    def get_member_reach(self, principal: Principal) -> Reach:
        """Return the scopes of the principal's roles, with all scopes below and above them."""
        lineages = [assignment.lineage for assignment in self._assigned.get(principal.pk, ())]
        return _build_reach(lineages, self._get_key_lineage(principal), is_shared=True)

    def get_permitted_scope_ids(self, principal: Principal, permission: str) -> frozenset[int]:
        """Return the keys of the scopes where `permission` is granted on all resources of its type."""
        return self.list_scope_ids(self.get_reach(principal, permission))

    def list_scope_ids(self, reach: Reach) -> frozenset[int]:
        """Return the keys of the scopes in `reach`."""
        if reach not in self._scope_ids:
            below = (pk for pk, line in self._lineages.items() if not reach.roots.isdisjoint(line))
            self._scope_ids[reach] = reach.singles.union(below)
        return self._scope_ids[reach]

    def list_below(self, scope: int) -> frozenset[int]:
        """Return the keys of the scope and of all below it that are not archived."""
        return self.list_scope_ids(Reach(frozenset({scope})))

    def has_names(self, principal: Principal) -> bool:
        """Return whether resource groups of the principal list single resources."""
        groups = {
            assignment.group_id
            for assignment in self._assigned.get(principal.pk, ())
            if assignment.group_id is not None
        }
        return any(name for group in groups for _, name in self._entries[group])

    @cached_property
    def _lineages(self) -> dict[int, Lineage]:
        return get_scope_lineages()

    def _get_lineage(self, scope: int) -> Lineage:
        """Return the scope with its ancestors; empty if it is archived."""
        if self._reads_scopes_singly and "_lineages" not in self.__dict__:
            return get_scope_lineages(scope).get(scope, ())
        return self._lineages.get(scope, ())

    def _get_key_lineage(self, principal: Principal) -> Lineage | None:
        key = get_key_scope(principal)
        return None if key is None else self._get_lineage(key)

    def _narrow_by_key(self, principal: Principal, permission: str, lineages: Iterable[Lineage]) -> Reach:
        if not is_allowed_by_key(principal, permission):
            return Reach()
        key = self._get_key_lineage(principal)
        return _build_reach(lineages, key, is_shared=permission in SHARED_VIEW_PERMISSIONS)

    def _list_permissions(self, assignment: _Assignment, names: Mapping[str, str]) -> set[str]:
        """Return the permissions of an assignment on a resource with `names`; without, on all of its type."""
        permissions = self._permissions[assignment.role_id]
        if assignment.group_id is not None:
            entries = self._entries[assignment.group_id]
            kinds = {kind for kind, name in entries if not name or names.get(kind) == name}
            permissions = {each for each in permissions if PERMISSIONS[each].resource in kinds}
        return permissions | {ALWAYS_GRANTED}


def _filter_by_key(principal: Principal, permissions: Iterable[str]) -> frozenset[str]:
    return frozenset(each for each in permissions if is_allowed_by_key(principal, each))


def _build_reach(lineages: Iterable[Lineage], key: Lineage | None, *, is_shared: bool) -> Reach:
    """Return the scopes that assignments with these lineages reach, within the scope of an API key.

    If the permission is shared, also those above an assignment, and with a key, those above the key.
    """
    lines = [line for line in lineages if line]
    roots = {line[0] for line in lines}
    above = {line[at]: line[at:] for line in lines for at in range(1, len(line))} if is_shared else {}
    if key is None:
        return Reach(frozenset(roots), frozenset(above))
    if not key:
        return Reach()
    scopes_below = {line[0] for line in lines if key[0] in line}
    if not roots.isdisjoint(key):
        scopes_below.add(key[0])
    if is_shared:
        above |= {key[at]: key[at:] for at in range(1, len(key)) if not roots.isdisjoint(key[at:])}
    scopes_above = {pk for pk, line in above.items() if pk in key or key[0] in line}
    return Reach(frozenset(scopes_below), frozenset(scopes_above))


def _load_for_one(principal: Principal) -> tuple[_ByPerson, _ByRole]:
    """Return the active assignments with the permissions of their roles, in one query for one principal."""
    assigned: _ByPerson = defaultdict(set)
    permissions: _ByRole = defaultdict(set)
    if not isinstance(principal, User) or principal.pk is None:
        return assigned, permissions
    is_service_account = principal.kind == User.Kind.SERVICE_ACCOUNT
    build_query = _build_service_account_query if is_service_account else _build_person_query
    for permission, *columns in fetch_compiled(build_query, principal.pk):
        assignment = _read_assignment(columns)
        assigned[principal.pk].add(assignment)
        if permission in PERMISSIONS:
            permissions[assignment.role_id].add(permission)
    return assigned, permissions


def _build_person_query(*, is_service_account: bool = False) -> QuerySet[RoleAssignment, tuple[Any, ...]]:
    rows = list_valid_assignments(ANY_KEY, is_service_account=is_service_account, now=ANY_MOMENT)
    return rows.values_list("role__permissions__permission", *_COLUMNS)


def _build_service_account_query() -> QuerySet[RoleAssignment, tuple[Any, ...]]:
    return _build_person_query(is_service_account=True)


def _load_for_many(principals: Iterable[Principal]) -> tuple[_ByPerson, _ByRole]:
    """Return the active assignments with the permissions of their roles, in two queries for many."""
    assigned = _load_assignments([assignment.pk for assignment in principals if assignment.pk is not None])
    return assigned, _load_role_permissions(
        {assignment.role_id for each in assigned.values() for assignment in each}
    )


def _load_assignments(people: list[int]) -> _ByPerson:
    """Return the valid assignments by user: direct ones, and those of the user's groups."""
    active = User.objects.filter(ACTIVE_USERS, pk__in=people).values("pk")
    assignment_rows = RoleAssignment.objects.filter(build_validity_filter())
    own = assignment_rows.filter(user__in=active).values_list("user_id", *_COLUMNS)
    by_group = assignment_rows.filter(group__users__in=active).values_list("group__users", *_COLUMNS)
    assignments: _ByPerson = defaultdict(set)
    for person, *columns in own.union(by_group):
        assignments[person].add(_read_assignment(columns))
    return assignments


def _read_assignment(columns: list[Any]) -> _Assignment:
    role_id, group_id, *lineage = columns
    keys, archived_at = lineage[:3], lineage[3:]
    is_archived = any(at is not None for at in archived_at)
    return _Assignment(role_id, group_id, () if is_archived else tuple(pk for pk in keys if pk is not None))


def _load_role_permissions(roles: Collection[int]) -> _ByRole:
    permissions: _ByRole = defaultdict(set)
    rows = RolePermission.objects.filter(role__in=roles).values_list("role_id", "permission")
    for role_id, permission in rows:
        if permission in PERMISSIONS:
            permissions[role_id].add(permission)
    return permissions


def _load_group_entries(groups: Collection[int]) -> dict[int, set[tuple[str, str]]]:
    entries: dict[int, set[tuple[str, str]]] = defaultdict(set)
    if not groups:
        return entries
    rows = ResourceGroupEntry.objects.filter(group__in=groups).values_list(
        "group_id", "resource", "identifier"
    )
    for group_id, *entry in rows:
        entries[group_id].add((entry[0], entry[1]))
    return entries


_RequestGrants = dict[tuple[int | None, ApiKeyLimits | None], Grants]
_cached_grants: ContextVar[_RequestGrants | None] = ContextVar("cached_grants", default=None)


@contextmanager
def cache_permissions() -> Iterator[None]:
    """Read the permissions of each principal once in the block, or in the block around it."""
    token = _cached_grants.set({} if (outer := _cached_grants.get()) is None else outer)
    try:
        yield
    finally:
        _cached_grants.reset(token)


def get_grants(principal: Principal) -> Grants:
    """Return the permissions of `principal`: read now, or once in the block of `cache_permissions`."""
    cached = _cached_grants.get()
    if cached is None:
        return Grants([principal], reads_scopes_singly=True)
    key = (principal.pk, get_key_limits(principal))
    if key not in cached:
        cached[key] = Grants([principal])
    return cached[key]
