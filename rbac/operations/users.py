"""Operations on users."""

from django.core.exceptions import ValidationError
from django.db import transaction

from rbac import audit
from rbac.models import Scope, User
from rbac.operations.escalation_checks import list_user_assignments, refuse_role_escalation
from rbac.operations.last_administrator import keep_account_administrator
from rbac.policy import Forbidden, can

MANAGE_USERS = "core_user_manage"


def refuse_more_privileged(actor: User, person: User) -> None:
    """Refuse to change a user with more permissions: a new password would give access to them.

    Raises `Forbidden`.
    """
    if actor.pk != person.pk:
        refuse_role_escalation(actor, list_user_assignments(person))


def require_user_management(actor: User, person: User) -> None:
    """Check that `actor` may disable `person` or reset their second factor.

    Users belong to the account, so the permission is needed there. Raises `Forbidden`, `ValidationError`.
    """
    if not can(actor, MANAGE_USERS, Scope.objects.account()):
        raise Forbidden(MANAGE_USERS)
    if actor.pk == person.pk:
        raise ValidationError("This is your own user. Ask another administrator.", code="state")
    refuse_more_privileged(actor, person)


@transaction.atomic
@keep_account_administrator()
def set_user_active(*, actor: User, person: User, is_active: bool) -> None:
    """Disable or enable the sign-in and the API keys of a user; roles and groups stay.

    The last account administrator cannot be disabled. Raises `Forbidden`, `ValidationError`.
    """
    require_user_management(actor, person)
    stored = User.objects.select_for_update().get(pk=person.pk)
    if stored.kind != User.Kind.PERSON:
        raise ValidationError("A service account has no sign-in. Revoke its API keys.", code="state")
    if stored.is_active == is_active:
        return
    stored.is_active = is_active
    stored.save(update_fields=["is_active"])
    audit.record_audit_entry(
        actor=actor,
        action="user.update",
        thing=stored,
        before={"is_active": not is_active},
        after={"is_active": is_active},
    )
