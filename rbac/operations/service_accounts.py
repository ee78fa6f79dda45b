"""What a person can do to service accounts."""

from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from rbac import audit
from rbac.models import ApiKey, RoleAssignment, Scope, ServiceAccount, User
from rbac.operations.asking import require_of
from rbac.operations.identifiers import first_free, identifier_of, save_new


@transaction.atomic
def create_service_account(
    *, actor: User | None, scope: Scope, name: str, identifier: str = "", description: str = ""
) -> ServiceAccount:
    """Add a program to `scope`, with a user that acts for it: without a password, without a role.

    Without an `identifier` it gets one that is made of its name.
    Raises `ValidationError`, `Forbidden`, `NotVisible`.
    """
    require_of(actor, "core_serviceaccount_edit", scope)
    here = ServiceAccount.objects.filter(scope=scope)
    account = ServiceAccount(scope=scope, name=name, description=description)
    account.identifier = identifier or identifier_of(name, here, "service_account")
    account.full_clean(exclude=["user"], validate_constraints=False)
    taken = ValidationError({"identifier": f"There is a service account {account.identifier} already."})
    account.user = _new_user(account, taken)
    save_new(account, taken)
    audit.record(actor=actor, action="serviceaccount.create", thing=account, after=_record(account))
    return account


@transaction.atomic
def update_service_account(
    *, actor: User | None, account: ServiceAccount, name: str, description: str
) -> ServiceAccount:
    """Change what a service account is called; its identifier stays for ever."""
    require_of(actor, "core_serviceaccount_edit", account.scope)
    before = _record(account)
    account.name, account.description = name, description
    account.full_clean()
    account.save(update_fields=["name", "description"])
    audit.record(
        actor=actor, action="serviceaccount.update", thing=account, before=before, after=_record(account)
    )
    return account


@transaction.atomic
def delete_service_account(*, actor: User | None, account: ServiceAccount) -> None:
    """Delete a service account: its keys are revoked and its roles removed; what it did keeps its name."""
    require_of(actor, "core_serviceaccount_delete", account.scope)
    user = account.user
    assignments = RoleAssignment.objects.filter(user=user).select_related("role", "scope")
    before = _record(account) | {
        "roles": [f"{one.role.identifier} at {one.scope.path}" for one in assignments]
    }
    assignments.delete()
    user.user_groups.clear()
    ApiKey.objects.filter(user=user, revoked_at=None).update(revoked_at=timezone.now())
    User.objects.filter(pk=user.pk).update(is_active=False)
    audit.record(actor=actor, action="serviceaccount.delete", thing=account, before=before)
    account.delete()


def _new_user(account: ServiceAccount, taken: ValidationError) -> User:
    stem = f"{account.identifier}@{account.scope.identifier}".replace("$", "_")
    user = User(username=first_free(stem, User.objects, "username"), kind=User.Kind.SERVICE_ACCOUNT)
    user.set_unusable_password()
    user.full_clean()
    save_new(user, taken)
    return user


def _record(account: ServiceAccount) -> dict[str, Any]:
    return {"identifier": account.identifier, "name": account.name, "description": account.description}
