"""Explanations of granted and missing permissions by role assignment."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

from django.db.models import Q, QuerySet
from django.utils import timezone

from rbac.models import ResourceGroupEntry, Role, RoleAssignment, Scope, User, UserGroup
from rbac.permissions import ALWAYS_GRANTED, BUILTIN_ROLES, PERMISSIONS, SHARED_VIEW_PERMISSIONS
from rbac.policy.principals import get_key_scope, is_allowed_by_key
from rbac.policy.resources import HasScope, get_identities, get_scope_id

ExplainedPrincipal = User | UserGroup


@dataclass(frozen=True)
class PermissionVerdict:
    """Verdict on `permission` with the granting assignments, nearest first, and a sentence.

    `granting_roles` names the built-in roles that would grant it; empty if it is granted.
    """

    permission: str
    is_granted: bool
    reason: str
    assignments: tuple[RoleAssignment, ...] = ()
    granting_roles: tuple[str, ...] = ()

    @property
    def others(self) -> int:
        """Return the number of further granting assignments."""
        return max(0, len(self.assignments) - 1)


def explain_permissions(
    subject: ExplainedPrincipal,
    thing: HasScope,
    permissions: Iterable[str] | None = None,
    on_any: Collection[str] = (),
) -> list[PermissionVerdict]:
    """Return a verdict on each of `permissions`; by default on all permissions for `thing`.

    It agrees with `can`, except for permissions in `on_any`: see `GrantTest`. For a group, it covers the
    permissions that its members get from it. The number of queries is constant.
    """
    identifiers = list_resource_permissions(thing) if permissions is None else permissions
    case = _PermissionCase(subject, thing, on_any)
    return [case.build_verdict(permission) for permission in identifiers]


def list_resource_permissions(thing: HasScope) -> tuple[str, ...]:
    """Return the permissions for the type of `thing`; all of them for a scope."""
    kinds = get_identities(thing)
    return tuple(p.identifier for p in PERMISSIONS.values() if not kinds or p.resource in kinds)


class GrantTest:
    """Test of assignments: which of them grant a permission on one resource, and why others do not.

    Permissions in `on_any` count if they are granted on any resource of their type, in the scope of the
    resource, above it or below it.
    """

    def __init__(self, thing: HasScope, rows: QuerySet[RoleAssignment], on_any: Collection[str] = ()) -> None:
        self.scope = Scope.objects.select_related("parent__parent").get(pk=get_scope_id(thing))
        self.identities = get_identities(thing)
        self.now = timezone.now()
        self._rows, self._on_any = rows, frozenset(on_any)

    @cached_property
    def assignments(self) -> list[RoleAssignment]:
        """Return the assignments, also expired ones, nearest first, direct ones first."""
        rows = self._rows.select_related(
            "role", "scope__parent__parent", "user__service_account", "group", "resource_group"
        )
        return sorted(rows, key=lambda row: (-row.scope.path.count("/"), row.group_id or 0, row.pk))

    @cached_property
    def permissions_by_role(self) -> dict[int, set[str]]:
        """Return the permissions of each role."""
        permissions: dict[int, set[str]] = {}
        rows = Role.objects.filter(pk__in={assignment.role_id for assignment in self.assignments})
        for role, permission in rows.values_list("pk", "permissions__permission"):
            permissions.setdefault(role, set()).add(permission)
        return permissions

    @cached_property
    def groups_with_resource(self) -> set[tuple[int, str]]:
        """Return the resource groups that contain the resource, each with the type of its entry."""
        entries = Q(identifier="") | Q(resource__in=[PERMISSIONS[each].resource for each in self._on_any])
        for resource, identifier in self.identities.items():
            entries |= Q(resource=resource, identifier=identifier)
        groups = {assignment.resource_group_id for assignment in self.assignments}
        rows = ResourceGroupEntry.objects.filter(entries, group__in=groups - {None})
        return set(rows.values_list("group_id", "resource"))

    def list_granting(self, permission: str) -> list[RoleAssignment]:
        """Return the assignments that grant the permission, nearest first."""
        if describe_archived(self.scope):
            return []
        return [row for row in self.list_candidates(permission) if not self.describe_problem(row, permission)]

    def list_candidates(self, permission: str) -> list[RoleAssignment]:
        """Return the assignments whose role has the permission and reaches the scope of the resource."""
        return [row for row in self.assignments if self._includes(row, permission)]

    def describe_problem(self, assignment: RoleAssignment, permission: str) -> str:
        """Return the reason why this assignment does not apply, although its role has the permission."""
        name = f"{assignment.role.name} at {assignment.scope.path}"
        if assignment.expires_at is not None and assignment.expires_at <= self.now:
            return f"{name} expired at {assignment.expires_at:%Y-%m-%d %H:%M} UTC."
        if archived := describe_archived(assignment.scope):
            return archived
        group, kind = assignment.resource_group, PERMISSIONS[permission].resource
        if group is None or permission == ALWAYS_GRANTED or (group.pk, kind) in self.groups_with_resource:
            return ""
        return f"{name} is limited to the resource group {group.name}, which does not contain this resource."

    def covers(self, assignment: RoleAssignment) -> bool:
        """Return whether the assignment is at the scope of the resource or above it."""
        return assignment.scope in list_ancestors(self.scope)

    def _includes(self, assignment: RoleAssignment, permission: str) -> bool:
        has_it = permission == ALWAYS_GRANTED or permission in self.permissions_by_role[assignment.role_id]
        return has_it and (self.covers(assignment) or self._reaches_up(assignment, permission))

    def _reaches_up(self, assignment: RoleAssignment, permission: str) -> bool:
        counts_below = permission in SHARED_VIEW_PERMISSIONS or permission in self._on_any
        return counts_below and self.scope in list_ancestors(assignment.scope)


class _PermissionCase:
    """One subject and one thing, with all that was read about them."""

    def __init__(self, subject: ExplainedPrincipal, thing: HasScope, on_any: Collection[str] = ()) -> None:
        self.subject = subject
        self.test = GrantTest(thing, _list_assignments(subject), on_any)
        self.scope = self.test.scope

    def build_verdict(self, permission: str) -> PermissionVerdict:
        problem = self._describe_case_problem(permission)
        granting = [] if problem else self.test.list_granting(permission)
        if granting:
            reason = self._describe_grant(granting[0], permission)
            return PermissionVerdict(permission, True, reason, tuple(granting))
        candidates = self.test.list_candidates(permission)
        obstacles = filter(None, (self.test.describe_problem(row, permission) for row in candidates))
        reason = problem or next(obstacles, f"No role grants {permission} in this scope.")
        roles = tuple(role.name for role in BUILTIN_ROLES if permission in role.permissions)
        return PermissionVerdict(permission, False, reason, granting_roles=roles)

    @cached_property
    def subject_problem(self) -> str:
        """Return the reason why the subject has no access at all."""
        if isinstance(self.subject, UserGroup):
            return ""
        user = User.objects.select_related("service_account__scope__parent__parent").get(pk=self.subject.pk)
        if not user.is_active:
            return f"{user.username} is deactivated."
        program = getattr(user, "service_account", None)
        return describe_archived(program.scope) if program is not None else ""

    @cached_property
    def key_lineage(self) -> list[Scope]:
        """Return the scope of the API key with its ancestors; empty without a scope."""
        key = get_key_scope(self.subject) if isinstance(self.subject, User) else None
        scope = Scope.objects.select_related("parent__parent").filter(pk=key).first() if key else None
        return [] if scope is None else list_ancestors(scope)

    def _describe_case_problem(self, permission: str) -> str:
        """Return the reason why no assignment can grant the permission."""
        if archived := describe_archived(self.scope):
            return archived
        if self.subject_problem:
            return self.subject_problem
        if isinstance(self.subject, User) and not is_allowed_by_key(self.subject, permission):
            return f"The API key does not include {permission}."
        return "" if self._is_within_key(permission) else f"The API key is not valid in {self.scope.path}."

    def _is_within_key(self, permission: str) -> bool:
        key = self.key_lineage
        if not key or key[0] in list_ancestors(self.scope):
            return True
        return permission in SHARED_VIEW_PERMISSIONS and not describe_archived(key[0]) and self.scope in key

    def _describe_grant(self, assignment: RoleAssignment, permission: str) -> str:
        parts = [f"{assignment.role.name} at {assignment.scope.path}"]
        if permission == ALWAYS_GRANTED:
            parts = [f"Every member can view delegates, including by {parts[0]}"]
        if assignment.group is not None and assignment.group != self.subject:
            parts.append(f"as a member of {assignment.group.name}")
        if assignment.resource_group is not None and permission != ALWAYS_GRANTED:
            parts.append(f"limited to the resource group {assignment.resource_group.name}")
        if permission in SHARED_VIEW_PERMISSIONS and not self.test.covers(assignment):
            parts.append("from where one also sees what is shared above")
        if assignment.expires_at is not None:
            parts.append(f"until {assignment.expires_at:%Y-%m-%d %H:%M} UTC")
        return ", ".join(parts) + "."


def _list_assignments(subject: ExplainedPrincipal) -> QuerySet[RoleAssignment]:
    if isinstance(subject, UserGroup):
        return RoleAssignment.objects.filter(group=subject)
    groups = UserGroup.users.through.objects.filter(user=subject.pk).values("usergroup_id")
    return RoleAssignment.objects.filter(Q(user=subject.pk) | Q(group__in=groups))


def list_ancestors(scope: Scope) -> list[Scope]:
    """Return the scope and its ancestors; its parents must be loaded."""
    lineage = [scope]
    while (parent := lineage[-1].parent) is not None:
        lineage.append(parent)
    return lineage


def describe_archived(scope: Scope) -> str:
    """Return which scope at or above `scope` is archived, or an empty text; its parents must be loaded."""
    archived = next(
        (ancestor for ancestor in list_ancestors(scope) if ancestor.archived_at is not None), None
    )
    return "" if archived is None else f"{archived.path} is archived. Restore it first."
