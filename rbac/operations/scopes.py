"""Operations on organizations and projects."""

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from guards.limits import ORGANIZATIONS, PROJECTS
from rbac import audit
from rbac.archive_guards import ScopeBusy, list_work_in_progress
from rbac.models import Scope, User
from rbac.operations.escalation_checks import require_permission
from rbac.operations.row_locks import lock_row


@transaction.atomic
def create_organization(*, actor: User | None, identifier: str, name: str) -> Scope:
    """Add an organization to the account. Raises `ValidationError`, `Forbidden`, `NotVisible`."""
    account = Scope.objects.account()
    require_permission(actor, "core_organization_edit", account)
    return _create_scope(actor, Scope.Kind.ORGANIZATION, account, identifier, name)


@transaction.atomic
def create_project(*, actor: User | None, organization: Scope, identifier: str, name: str) -> Scope:
    """Add a project to an organization. Raises `ValidationError`, `Forbidden`, `NotVisible`."""
    require_permission(actor, "core_project_edit", organization)
    # Grants reach two levels below the account: they would not hold in a project inside a project.
    if organization.kind != Scope.Kind.ORGANIZATION:
        raise ValidationError(f"{organization.path} is not an organization. Projects belong to one.")
    return _create_scope(actor, Scope.Kind.PROJECT, organization, identifier, name)


@transaction.atomic
def rename_scope(*, actor: User | None, scope: Scope, name: str) -> Scope:
    """Rename `scope`; its identifier never changes."""
    require_permission(actor, f"core_{scope.resource}_edit", scope)
    # A form may have put the new name into `scope` already.
    before, scope.name = Scope.objects.get(pk=scope.pk).name, name
    scope.full_clean()
    scope.save(update_fields=["name"])
    audit.record_audit_entry(
        actor=actor, action="scope.update", thing=scope, before={"name": before}, after={"name": name}
    )
    return scope


@transaction.atomic
def archive_scope(*, actor: User | None, scope: Scope) -> Scope:
    """Archive an organization or a project: nobody has access at or below it.

    Nothing is deleted. Raises `ScopeBusy` for work in progress, `ValidationError` for the account and for an
    archived scope, `Forbidden`, `NotVisible`.
    """
    if scope.parent is None:
        raise ValidationError("The account cannot be archived.")
    require_permission(actor, f"core_{scope.resource}_delete", scope)
    # Blocks concurrent starts of work, which call `lock_scope`.
    locked = Scope.objects.select_for_update().get(pk=scope.pk)
    list(Scope.objects.select_for_update().filter(parent=locked).order_by("pk").values_list("pk"))
    if locked.archived_at is not None:
        raise ValidationError(f"{scope.path} is already archived.")
    if work := list_work_in_progress(locked):
        raise ScopeBusy(locked, work)
    scope.archived_at = timezone.now()
    scope.save(update_fields=["archived_at"])
    _build_audit_values(actor, "scope.archive", scope, was=None)
    return scope


@transaction.atomic
def restore_scope(*, actor: User | None, scope: Scope) -> Scope:
    """Restore an archived organization or project with all its resources.

    The permission is checked at the parent, because an archived scope grants none. Raises `ValidationError`
    for a scope that is not archived, `Forbidden`, `NotVisible`.
    """
    not_archived = ValidationError(f"{scope.path} is not archived.")
    if scope.parent is None or scope.archived_at is None:
        raise not_archived
    require_permission(actor, f"core_{scope.resource}_delete", scope.parent)
    if lock_row(scope).archived_at is None:
        raise not_archived
    was, scope.archived_at = scope.archived_at.isoformat(), None
    scope.save(update_fields=["archived_at"])
    _build_audit_values(actor, "scope.restore", scope, was=was)
    return scope


def _build_audit_values(actor: User | None, action: str, scope: Scope, *, was: str | None) -> None:
    now = scope.archived_at.isoformat() if scope.archived_at else None
    before, after = {"archived_at": was}, {"archived_at": now}
    audit.record_audit_entry(actor=actor, action=action, thing=scope, before=before, after=after)


def _create_scope(actor: User | None, kind: Scope.Kind, parent: Scope, identifier: str, name: str) -> Scope:
    most = ORGANIZATIONS if kind == Scope.Kind.ORGANIZATION else PROJECTS
    if Scope.objects.filter(parent=parent).count() >= most:
        raise ValidationError(
            f"{parent.path} already has {most}, including archived ones. This is the limit."
        )
    scope = Scope(kind=kind, parent=parent, identifier=identifier, name=name)
    scope.path = f"{parent.path}/{identifier}"
    scope.full_clean(validate_unique=False)
    try:
        with transaction.atomic():
            scope.save()
    except IntegrityError as exc:
        existing = Scope.objects.get(path=scope.path)
        archived = (
            " It is archived. Restore it, or choose another identifier." if existing.archived_at else ""
        )
        raise ValidationError(
            {"identifier": (f"{kind.label} {identifier} already exists.{archived}")}
        ) from exc
    audit.record_audit_entry(actor=actor, action="scope.create", thing=scope, after={"name": name})
    return scope
