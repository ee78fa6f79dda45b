"""Invitations by e-mail: create, renew, revoke, accept."""

import secrets
from datetime import timedelta
from typing import Any

from django.core.exceptions import PermissionDenied, ValidationError
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.http import Http404
from django.utils import timezone

from guards.limits import INVITATION_DAYS, INVITATIONS_PER_HOUR
from rbac import audit
from rbac.models import Invitation, Role, RoleAssignment, Scope, User
from rbac.models.api_keys import hash_token
from rbac.operations.escalation_checks import refuse_escalation, require_permission
from rbac.operations.identifiers import create_unique
from rbac.operations.roles import assign_role, remove_assignments
from rbac.operations.row_locks import lock_granted
from rbac.usage_counts import counts

TOKEN_PREFIX = "slp_inv_"  # noqa: S105 - no password
HOUR_SECONDS = 3600
INVITATION_ENDED = "This invitation is no longer valid. Ask the sender for a new one."


@transaction.atomic
def create_invitation(
    *, actor: User, email: str, scope: Scope, role: Role, days: int
) -> tuple[Invitation, str]:
    """Create an invitation of `email` to `role` at `scope`, and return it with the token of its link.

    The actor needs permission to manage users there, and all permissions of the role. Raises `Forbidden`,
    `NotVisible`, `ValidationError`.
    """
    require_permission(actor, "core_user_manage", scope)
    if role.scope is not None and role.scope.path not in scope.ancestor_paths():
        raise ValidationError({"role": "This role belongs to another scope."})
    lock_granted(role)
    refuse_escalation(actor, role.permissions.values_list("permission", flat=True), scope)
    _refuse_too_many(actor)
    token, ends = _generate_token(days)
    _revoke_expired(actor, Invitation.objects.filter(email=email.lower(), scope=scope, role=role))
    invitation = Invitation(email=email.lower(), scope=scope, role=role, invited_by=actor)
    invitation.hash, invitation.expires_at = hash_token(token), ends
    invitation.full_clean(validate_constraints=False)
    try:
        with transaction.atomic():
            invitation.save()
    except IntegrityError as exc:
        message = "This address already has an invitation with this role. Resend that invitation."
        raise ValidationError({"email": message}) from exc
    audit.record_audit_entry(
        actor=actor, action="invitation.create", thing=invitation, after=_build_audit_values(invitation)
    )
    return invitation, token


@transaction.atomic
def renew_invitation(*, actor: User, invitation: Invitation, days: int) -> tuple[Invitation, str]:
    """Restart the validity of an invitation, and return it with its new token; the old link ends."""
    locked = _lock_invitation(invitation)
    require_permission(actor, "core_user_manage", locked.scope)
    permissions = locked.role.permissions.values_list("permission", flat=True)
    refuse_escalation(actor, permissions, locked.scope)
    if locked.accepted_at or locked.revoked_at:
        raise ValidationError(
            "This invitation was accepted or revoked. Create a new invitation.", code="state"
        )
    _refuse_too_many(actor)
    before = _build_audit_values(locked)
    token, locked.expires_at = _generate_token(days)
    # The sender is responsible: acceptance checks the sender's permissions.
    locked.hash, locked.invited_by = hash_token(token), actor
    locked.save(update_fields=["hash", "expires_at", "invited_by"])
    audit.record_audit_entry(
        actor=actor, action="invitation.renew", thing=locked, before=before, after=_build_audit_values(locked)
    )
    return locked, token


@transaction.atomic
def revoke_invitation(*, actor: User, invitation: Invitation) -> None:
    """Revoke an invitation; its link becomes invalid."""
    locked = _lock_invitation(invitation)
    require_permission(actor, "core_user_manage", locked.scope)
    if locked.accepted_at:
        raise ValidationError("This invitation was accepted. Remove the role assignment instead.")
    if locked.revoked_at is None:
        _revoke(actor, locked)


def _revoke_expired(actor: User, invitations: QuerySet[Invitation]) -> None:
    """Revoke the expired ones of invitations, so that a new one can take their place."""
    rows = invitations.filter(accepted_at=None, revoked_at=None, expires_at__lte=timezone.now())
    for invitation in rows.select_for_update(of=("self",)).select_related("scope", "role"):
        _revoke(actor, invitation)


def _revoke(actor: User, locked: Invitation) -> None:
    locked.revoked_at = timezone.now()
    locked.save(update_fields=["revoked_at"])
    audit.record_audit_entry(
        actor=actor, action="invitation.revoke", thing=locked, before=_build_audit_values(locked)
    )


def get_invitation_by_token(token: str) -> Invitation | None:
    """Return the open invitation of a token, or None."""
    return get_invitation_by_hash(hash_token(token))


def get_invitation_by_hash(token_hash: str) -> Invitation | None:
    """Return the open invitation of a token's hash; only the hash is stored."""
    rows = Invitation.objects.select_related("scope__parent__parent", "role", "invited_by")
    invitation = rows.filter(hash=token_hash).first()
    return invitation if invitation is not None and invitation.state == Invitation.OPEN else None


@transaction.atomic
def accept_invitation(*, person: User, invitation: Invitation) -> None:
    """Accept an invitation and assign its role to `person`.

    Raises `ValidationError` for an ended invitation, or if its sender may no longer assign the role.
    """
    locked = _lock_invitation(invitation)
    if locked.state != Invitation.OPEN:
        raise ValidationError(INVITATION_ENDED)
    # One that ends gives less than the invitation promises.
    assignments = person.assignments.filter(scope=locked.scope, role=locked.role, resource_group=None)
    if not assignments.filter(expires_at=None).exists():
        _assign_role(locked, person, replaced=assignments)
    locked.accepted_at, locked.accepted_by = timezone.now(), person
    locked.save(update_fields=["accepted_at", "accepted_by"])
    audit.record_audit_entry(
        actor=person, action="invitation.accept", thing=locked, after=_build_audit_values(locked)
    )


@transaction.atomic
def create_user_from_invitation(*, invitation: Invitation, username: str, password: str) -> User:
    """Create the invited user with the invitation's role. `password` is validated already."""
    person = User(username=username, email=invitation.email)
    person.set_password(password)
    person.full_clean()
    create_unique(person, ValidationError({"username": "A user with that username already exists."}))
    audit.record_audit_entry(
        actor=person, action="user.create", thing=person, after={"username": username, "email": person.email}
    )
    accept_invitation(person=person, invitation=invitation)
    return person


def _assign_role(invitation: Invitation, person: User, replaced: QuerySet[RoleAssignment]) -> None:
    sender = invitation.invited_by
    try:
        if sender is None:
            raise ValidationError(INVITATION_ENDED)
        # The sender grants the role; the request is the one of the person who accepts it.
        with audit.outside_request():
            remove_assignments(sender, replaced)
            assign_role(actor=sender, scope=invitation.scope, role=invitation.role, user=person)
    except (PermissionDenied, Http404) as exc:
        message = (
            "The sender of this invitation can no longer assign this role. Ask another administrator for an "
            "invitation."
        )
        raise ValidationError(message) from exc


def _lock_invitation(invitation: Invitation) -> Invitation:
    """Return the current invitation, locked until the transaction ends."""
    rows = Invitation.objects.select_for_update(of=("self",)).select_related("scope", "role", "invited_by")
    return rows.get(pk=invitation.pk)


def _generate_token(days: int) -> tuple[str, Any]:
    if not 1 <= days <= INVITATION_DAYS:
        raise ValidationError({"days": f"An invitation must be valid for 1 to {INVITATION_DAYS}."})
    return TOKEN_PREFIX + secrets.token_urlsafe(32), timezone.now() + timedelta(days=days)


def _refuse_too_many(actor: User) -> None:
    """Limit invitations, so that Slipway cannot be used to send mass mail."""
    if counts.increment(f"invitations:{actor.pk}", seconds=HOUR_SECONDS) > INVITATIONS_PER_HOUR:
        raise ValidationError(f"You sent {INVITATIONS_PER_HOUR} within one hour. Try again later.")


def _build_audit_values(invitation: Invitation) -> dict[str, Any]:
    return {
        "email": invitation.email,
        "role": invitation.role.identifier,
        "scope": invitation.scope.path,
        "expires_at": invitation.expires_at.isoformat(),
    }
