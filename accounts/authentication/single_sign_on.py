"""Mapping of identity provider accounts to users and groups."""

import hashlib
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from accounts.authentication.oidc import SignOnFailed
from accounts.authentication.sign_in_methods import NO_OTHER_SIGN_IN, has_other_sign_in
from guards.limits import SIGN_ON_GROUPS
from rbac import audit
from rbac.models import User, UserGroup
from rbac.models.users import is_reserved_username
from rbac.operations.last_administrator import keep_account_administrator
from rbac.operations.user_groups import has_provider_groups

# The longest subject that the table takes as it is; the specification allows 255 characters.
MOST_SUBJECT_CHARACTERS = 191
MOST_NAME_CHARACTERS = 150
Result = TypeVar("Result")
_log = logging.getLogger(__name__)


def get_or_create_user(claims: Mapping[str, Any]) -> User:
    """Return the user of `claims` with their current groups, created if new users are allowed.

    Only issuer and subject identify a user: an equal e-mail address or user name opens no account. Raises
    `SignOnFailed`.
    """
    return _repeat_after_race(lambda: _get_or_create(claims))


@transaction.atomic
def _get_or_create(claims: Mapping[str, Any]) -> User:
    account = SocialAccount.objects.select_related("user").filter(**_get_identity(claims)).first()
    user: User = account.user if account else _create_user(claims)
    if account is None:
        _create_link(user, claims)
    _sync_groups(user, claims)
    return user


def link_identity(*, actor: User, claims: Mapping[str, Any]) -> None:
    """Link the signed-in `actor` to the identity in `claims`. Raises `SignOnFailed`."""
    _repeat_after_race(lambda: _link(actor, claims))


@transaction.atomic
def _link(actor: User, claims: Mapping[str, Any]) -> None:
    link = SocialAccount.objects.filter(**_get_identity(claims)).first()
    if link is not None and link.user_id != actor.pk:
        raise SignOnFailed("Another Slipway user is already linked to this account.")
    if link is None:
        _create_link(actor, claims)
        audit.record_audit_entry(actor=actor, action="user.sign_on_link", thing=actor)
    _sync_groups(actor, claims)


@transaction.atomic
@keep_account_administrator()
def unlink_identity(*, actor: User) -> None:
    """End that `actor` signs on with the provider, whose groups they leave; the password stays.

    Raises `ValidationError` if the user could not sign in any more, or was the last account administrator.
    """
    # The row is locked, for another window may remove the passkey that is left.
    if not has_other_sign_in(User.objects.select_for_update().get(pk=actor.pk)):
        raise ValidationError(NO_OTHER_SIGN_IN, code="state")
    if SocialAccount.objects.filter(user=actor).delete()[0]:
        audit.record_audit_entry(actor=actor, action="user.sign_on_unlink", thing=actor)
        _set_external_groups(actor, set())


def _repeat_after_race(work: Callable[[], Result]) -> Result:
    """Return the result of `work`, which finds the rows of another sign-on when it runs again.

    Raises `SignOnFailed` if a third one gets ahead of it.
    """
    for _ in range(2):
        try:
            return work()
        except IntegrityError as error:
            _log.info("Another sign-on created the same user or link: %s", error)
    raise SignOnFailed("Others signed in for the first time at the same moment. Try again.")


def _get_identity(claims: Mapping[str, Any]) -> dict[str, str]:
    subject = claims["sub"]
    if len(subject) > MOST_SUBJECT_CHARACTERS:
        subject = f"sha256:{hashlib.sha256(subject.encode()).hexdigest()}"
    return {"provider": settings.OIDC_ISSUER, "uid": subject}


def _create_link(user: User, claims: Mapping[str, Any]) -> None:
    SocialAccount.objects.create(user=user, **_get_identity(claims))


def _create_user(claims: Mapping[str, Any]) -> User:
    if not settings.OIDC_ALLOW_NEW_USERS:
        raise SignOnFailed(
            f"You signed in with {settings.OIDC_NAME}, but no Slipway user is linked to that account. "
            "If you have a password, sign in with it and link your account on the account page. "
            "Otherwise ask an administrator."
        )
    preferred_name = str(claims.get("preferred_username") or claims.get("email") or claims["sub"])
    user = User(username=_find_free_username(preferred_name), email=_get_email(claims))
    user.first_name, user.last_name = (
        _get_text_claim(claims, "given_name"),
        _get_text_claim(claims, "family_name"),
    )
    user.set_unusable_password()
    user.save()
    audit.record_audit_entry(actor=None, action="user.create", thing=user, after={"by": "single sign-on"})
    return user


def _find_free_username(preferred_name: str) -> str:
    name = (
        re.sub(r"[^A-Za-z0-9.@+_-]+", "-", preferred_name)[: MOST_NAME_CHARACTERS - 8].strip("-") or "person"
    )
    number, free = 1, name
    User.objects.lock_usernames()
    while is_reserved_username(free) or User.objects.filter(username__iexact=free).exists():
        number += 1
        free = f"{name}-{number}"
    return free


def _get_email(claims: Mapping[str, Any]) -> str:
    # Password links are sent to this address, so an unverified one is not accepted.
    email = claims.get("email") if claims.get("email_verified") is True else ""
    try:
        return str(User._meta.get_field("email").clean(email if isinstance(email, str) else "", None))
    except ValidationError:
        return ""


def _is_valid_name(value: object) -> bool:
    return isinstance(value, str) and value.isprintable() and value != ""


def _get_text_claim(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    text = "".join(sign for sign in value if sign.isprintable()) if isinstance(value, str) else ""
    return text.strip()[:MOST_NAME_CHARACTERS]


def _sync_groups(user: User, claims: Mapping[str, Any]) -> None:
    """Make the user a member of exactly the groups that the provider names."""
    if not has_provider_groups():
        return
    claim, elsewhere = claims.get(settings.OIDC_GROUPS_CLAIM), claims.get("_claim_names")
    if claim is None and isinstance(elsewhere, Mapping) and settings.OIDC_GROUPS_CLAIM in elsewhere:
        # https://openid.net/specs/openid-connect-core-1_0.html#AggregatedDistributedClaims
        raise SignOnFailed(
            "The provider keeps back the groups of your user, usually because there are too many. Ask an "
            "administrator to let it return only the groups of this application."
        )
    # Some providers return a single group as text.
    listed = [claim] if isinstance(claim, str) else claim
    names = [name for name in listed if _is_valid_name(name)] if isinstance(listed, list) else []
    if len(names) > SIGN_ON_GROUPS:
        raise SignOnFailed(
            f"The provider returned more than {SIGN_ON_GROUPS} for your user. Ask an administrator to "
            "reduce them."
        )
    _set_external_groups(user, set(UserGroup.objects.filter(external_name__in=names)))


def _set_external_groups(user: User, after: set[UserGroup]) -> None:
    """Make the user a member of these groups of the provider, and of no others of it."""
    before = set(user.user_groups.exclude(external_name=""))
    if after == before:
        return
    user.user_groups.remove(*(before - after))
    user.user_groups.add(*(after - before))
    audit.record_audit_entry(
        actor=None,
        action="user.follow_groups",
        thing=user,
        before={"groups": sorted(group.external_name for group in before)},
        after={"groups": sorted(group.external_name for group in after)},
    )
