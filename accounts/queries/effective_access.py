"""Effective access of a principal in words: what its roles allow in each scope, also by inheritance."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from accounts.queries.granted_roles import GrantedRole, describe_scope
from rbac.models import RolePermission, Scope
from rbac.permissions import ALWAYS_GRANTED, PERMISSIONS, RESOURCE_TYPES

MAX_SCOPES: Final = 20
_ALL: Final = ("do everything with",)


@dataclass(frozen=True)
class ScopeGrant:
    """What one role allows in a scope, in words."""

    role: GrantedRole
    phrases: Sequence[str]


@dataclass(frozen=True)
class ScopeAccess:
    """Everything that roles allow in one scope: its own and those of the scopes above."""

    scope: Scope
    grants: Sequence[ScopeGrant]

    @property
    def title(self) -> str:
        words = describe_scope(self.scope)
        return words[0].upper() + words[1:]


def describe_permissions_briefly(permissions: Collection[str]) -> list[str]:
    """Return permissions in words, resources with the same actions together."""
    if PERMISSIONS.keys() <= set(permissions):
        return ["do everything"]
    titles_by_verbs: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for resource in RESOURCE_TYPES:
        granted = [each for each in resource.permissions if each.identifier in permissions]
        if granted:
            is_complete = len(granted) == len(resource.permissions) > 1
            verbs = _ALL if is_complete else tuple(each.verb for each in granted)
            titles_by_verbs[verbs].append(f"{resource.title[0].lower()}{resource.title[1:]}")
    ordered = sorted(titles_by_verbs.items(), key=lambda item: item[0] != _ALL)
    return [f"{join_words(verbs)} {join_words(titles)}" for verbs, titles in ordered]


def list_scope_access(roles: Iterable[GrantedRole], chosen: Scope | None) -> list[ScopeAccess]:
    """Return what roles allow in their scopes and in the chosen one, by path; one query.

    Expired roles are left out.
    """
    valid = [role for role in roles if not role.is_expired]
    permissions = _load_permissions({role.assignment.role_id for role in valid})
    scopes = {role.assignment.scope.path: role.assignment.scope for role in valid}
    if chosen is not None and any(is_inside(chosen, scope) for scope in scopes.values()):
        scopes.setdefault(chosen.path, chosen)
    ordered = sorted(scopes.values(), key=lambda scope: scope.path.split("/"))[:MAX_SCOPES]
    return [ScopeAccess(scope, _list_grants(scope, valid, permissions)) for scope in ordered]


def is_inside(scope: Scope, other: Scope) -> bool:
    """Return whether `scope` is `other` or below it."""
    return f"{scope.path}/".startswith(f"{other.path}/")


def _list_grants(
    scope: Scope, roles: Sequence[GrantedRole], permissions: dict[int, set[str]]
) -> list[ScopeGrant]:
    return [
        ScopeGrant(
            GrantedRole(role.assignment, scope),
            describe_permissions_briefly(permissions[role.assignment.role_id]),
        )
        for role in roles
        if is_inside(scope, role.assignment.scope)
    ]


def _load_permissions(roles: Collection[int]) -> dict[int, set[str]]:
    permissions: dict[int, set[str]] = defaultdict(lambda: {ALWAYS_GRANTED})
    rows = RolePermission.objects.filter(role__in=roles).values_list("role_id", "permission")
    for role_id, permission in rows:
        permissions[role_id].add(permission)
    return permissions


def join_words(words: Sequence[str]) -> str:
    """Return words as a list in a sentence: "view, run and delete"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
