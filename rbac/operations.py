"""What a person can do to scopes, roles and assignments; page, API and admin site all call these."""

from collections.abc import Iterable
from datetime import datetime

from django.core.exceptions import ValidationError
from django.db import transaction

from rbac import audit
from rbac.models import Role, RoleAssignment, Scope, User, UserGroup
from rbac.models.role import known_permission
from rbac.permissions import ALWAYS_GRANTED
from rbac.policy import Forbidden, permissions_at, require


@transaction.atomic
def create_organization(*, actor: User | None, identifier: str, name: str) -> Scope:
    """Add an organization to the account. Raises `ValidationError`, `Forbidden`, `NotVisible`."""
    account = Scope.objects.account()
    _require(actor, "core_organization_edit", account)
    return _create_scope(actor, Scope.Kind.ORGANIZATION, account, identifier, name)


@transaction.atomic
def create_project(*, actor: User | None, organization: Scope, identifier: str, name: str) -> Scope:
    """Add a project to an organization. Raises `ValidationError`, `Forbidden`, `NotVisible`."""
    _require(actor, "core_project_edit", organization)
    return _create_scope(actor, Scope.Kind.PROJECT, organization, identifier, name)


@transaction.atomic
def rename_scope(*, actor: User | None, scope: Scope, name: str) -> Scope:
    """Give `scope` another name; its identifier stays for ever."""
    resource = {"ACCOUNT": "account", "ORGANIZATION": "organization", "PROJECT": "project"}[scope.kind]
    _require(actor, f"core_{resource}_edit", scope)
    before, scope.name = scope.name, name
    scope.full_clean()
    scope.save(update_fields=["name"])
    audit.record(
        actor=actor, action="scope.update", thing=scope, before={"name": before}, after={"name": name}
    )
    return scope


@transaction.atomic
def create_role(
    *, actor: User | None, scope: Scope, identifier: str, name: str, permissions: Iterable[str]
) -> Role:
    """Add a role that can be assigned at `scope` and below, of permissions that the actor has there."""
    _require(actor, "core_role_edit", scope)
    wanted = _known(permissions)
    _refuse_more_than_own(actor, wanted, scope)
    role = Role(scope=scope, identifier=identifier, name=name)
    role.full_clean()
    role.save()
    role.set_permissions(wanted)
    audit.record(actor=actor, action="role.create", thing=role, after=_role_record(name, wanted))
    return role


@transaction.atomic
def update_role(*, actor: User | None, role: Role, name: str, permissions: Iterable[str]) -> Role:
    """Change a role's name and permissions; built-in roles cannot be changed."""
    scope = _own_scope(role)
    _require(actor, "core_role_edit", scope)
    wanted = _known(permissions)
    present = set(role.permissions.values_list("permission", flat=True))
    _refuse_more_than_own(actor, wanted - present, scope)
    before, role.name = role.name, name
    role.full_clean()
    role.save(update_fields=["name"])
    role.set_permissions(wanted)
    audit.record(
        actor=actor,
        action="role.update",
        thing=role,
        before=_role_record(before, present),
        after=_role_record(name, wanted),
    )
    return role


@transaction.atomic
def delete_role(*, actor: User | None, role: Role) -> None:
    """Delete a role that nobody has."""
    _require(actor, "core_role_delete", _own_scope(role))
    if role.assignments.exists():
        raise ValidationError("This role is assigned. Remove its assignments first.")
    audit.record(actor=actor, action="role.delete", thing=role)
    role.delete()


@transaction.atomic
def assign_role(
    *,
    actor: User | None,
    scope: Scope,
    role: Role,
    user: User | None = None,
    group: UserGroup | None = None,
    expires_at: datetime | None = None,
) -> RoleAssignment:
    """Give a user or a group a role at `scope` and below.

    The actor must be allowed to manage users there and have every permission that the role gives:
    otherwise who may assign roles could make themselves an admin.
    """
    _require(actor, "core_user_manage", scope)
    if role.scope is not None and role.scope.path not in scope.ancestor_paths():
        raise ValidationError({"role": "This role belongs to another scope."})
    _refuse_more_than_own(actor, role.permissions.values_list("permission", flat=True), scope)
    assignment = RoleAssignment(scope=scope, role=role, user=user, group=group, expires_at=expires_at)
    assignment.full_clean()
    assignment.save()
    audit.record(actor=actor, action="roleassignment.create", thing=assignment)
    return assignment


@transaction.atomic
def remove_assignment(*, actor: User | None, assignment: RoleAssignment) -> None:
    """Take a role away again. An actor cannot take away more than they could give."""
    _require(actor, "core_user_manage", assignment.scope)
    permissions = assignment.role.permissions.values_list("permission", flat=True)
    _refuse_more_than_own(actor, permissions, assignment.scope)
    audit.record(actor=actor, action="roleassignment.delete", thing=assignment)
    assignment.delete()


def _create_scope(actor: User | None, kind: Scope.Kind, parent: Scope, identifier: str, name: str) -> Scope:
    scope = Scope(kind=kind, parent=parent, identifier=identifier, name=name)
    scope.path = f"{parent.path}/{identifier}"
    scope.full_clean()
    if Scope.objects.filter(path=scope.path).exists():
        raise ValidationError({"identifier": f"{kind.label} {identifier} exists already."})
    scope.save()
    audit.record(actor=actor, action="scope.create", thing=scope, after={"name": name})
    return scope


def _require(actor: User | None, permission: str, scope: Scope) -> None:
    """Ask the policy; Slipway itself (no actor) may do everything."""
    if actor is not None:
        require(actor, permission, scope)


def _known(permissions: Iterable[str]) -> set[str]:
    wanted = set(permissions)
    for permission in wanted:
        known_permission(permission)
    return wanted | {ALWAYS_GRANTED}


def _own_scope(role: Role) -> Scope:
    if role.scope is None:
        raise ValidationError("Built-in roles cannot be changed.")
    return role.scope


def _refuse_more_than_own(actor: User | None, permissions: Iterable[str], scope: Scope) -> None:
    if actor is None:
        return
    if lacking := sorted(set(permissions) - permissions_at(actor, scope)):
        raise Forbidden(lacking[0])


def _role_record(name: str, permissions: Iterable[str]) -> dict[str, object]:
    return {"name": name, "permissions": sorted(permissions)}
