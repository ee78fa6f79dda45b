"""Operations on service accounts."""

from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from rbac import audit
from rbac.models import ApiKey, RoleAssignment, Scope, ServiceAccount, User
from rbac.operations.escalation_checks import require_permission
from rbac.operations.identifiers import build_unique_identifier, create_unique, find_free_username
from rbac.operations.row_locks import lock_row


@transaction.atomic
def create_service_account(
    *, actor: User | None, scope: Scope, name: str, identifier: str = "", description: str = ""
) -> ServiceAccount:
    """Create a service account in `scope`, with a user without password and roles.

    Without an `identifier` it is derived from the name. Raises `ValidationError`, `Forbidden`, `NotVisible`.
    """
    require_permission(actor, "core_serviceaccount_edit", scope)
    siblings = ServiceAccount.objects.filter(scope=scope)
    account = ServiceAccount(scope=scope, name=name, description=description)
    account.identifier = identifier or build_unique_identifier(name, siblings, "service_account")
    account.full_clean(exclude=["user"], validate_constraints=False)
    duplicate_error = ValidationError(
        {"identifier": f"A service account {account.identifier} already exists."}
    )
    account.user = _create_user(account, duplicate_error)
    create_unique(account, duplicate_error)
    audit.record_audit_entry(
        actor=actor, action="serviceaccount.create", thing=account, after=_build_audit_values(account)
    )
    return account


@transaction.atomic
def update_service_account(
    *, actor: User | None, account: ServiceAccount, name: str | None = None, description: str | None = None
) -> ServiceAccount:
    """Change name and description of a service account; what is None stays as it is stored.

    Raises `ValidationError`, `Forbidden`, `NotVisible`.
    """
    require_permission(actor, "core_serviceaccount_edit", account.scope)
    stored = lock_row(account)
    account.name = stored.name if name is None else name
    account.description = stored.description if description is None else description
    account.full_clean()
    account.save(update_fields=["name", "description"])
    audit.record_audit_entry(
        actor=actor,
        action="serviceaccount.update",
        thing=account,
        before=_build_audit_values(stored),
        after=_build_audit_values(account),
    )
    return account


@transaction.atomic
def delete_service_account(*, actor: User | None, account: ServiceAccount) -> None:
    """Delete a service account, revoke its keys and remove its roles; its history keeps its name."""
    require_permission(actor, "core_serviceaccount_delete", account.scope)
    lock_row(account)
    user = account.user
    assignments = RoleAssignment.objects.filter(user=user).select_related("role", "scope")
    before = _build_audit_values(account) | {
        "roles": [f"{assignment.role.identifier} at {assignment.scope.path}" for assignment in assignments]
    }
    assignments.delete()
    user.user_groups.clear()
    ApiKey.objects.filter(user=user, revoked_at=None).update(revoked_at=timezone.now())
    User.objects.filter(pk=user.pk).update(is_active=False)
    audit.record_audit_entry(actor=actor, action="serviceaccount.delete", thing=account, before=before)
    account.delete()


def _create_user(account: ServiceAccount, duplicate_error: ValidationError) -> User:
    stem = f"{account.identifier}@{account.scope.identifier}".replace("$", "_")
    user = User(username=find_free_username(stem), kind=User.Kind.SERVICE_ACCOUNT)
    user.set_unusable_password()
    user.full_clean()
    create_unique(user, duplicate_error)
    return user


def _build_audit_values(account: ServiceAccount) -> dict[str, Any]:
    return {"identifier": account.identifier, "name": account.name, "description": account.description}
