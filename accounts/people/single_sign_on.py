"""Whom of Slipway's people the provider of single sign-on speaks of, and which groups they are in."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction

from accounts.people.oidc import NotSignedOn
from guards.limits import SIGN_ON_GROUPS
from rbac import audit
from rbac.models import User, UserGroup

# The longest subject that the table takes as it is; the specification allows 255 characters.
LONGEST_SUBJECT = 191
LONGEST_NAME = 150


def is_offered() -> bool:
    """Say whether a provider is set."""
    return bool(settings.OIDC_ISSUER)


@transaction.atomic
def sign_on(claims: Mapping[str, Any]) -> User:
    """Return the person that `claims` speak of, made where new people are let in, with their groups of today.

    Only issuer and subject say who it is: an e-mail address or a user name that happens to be the same opens
    nobody's account. Raises `NotSignedOn`.
    """
    account = SocialAccount.objects.select_related("user").filter(**_identity(claims)).first()
    user: User = account.user if account else _newcomer(claims)
    if account is None:
        _link(user, claims)
    _follow_groups(user, claims)
    return user


@transaction.atomic
def link_sign_on(*, actor: User, claims: Mapping[str, Any]) -> None:
    """Let `actor`, who is signed in, sign on as the person of `claims` from now on. Raises `NotSignedOn`."""
    known = SocialAccount.objects.filter(**_identity(claims)).first()
    if known is not None and known.user_id != actor.pk:
        raise NotSignedOn("Somebody else of Slipway signs on with that account of the provider.")
    if known is None:
        _link(actor, claims)
        audit.record(actor=actor, action="user.sign_on_link", thing=actor)
    _follow_groups(actor, claims)


@transaction.atomic
def unlink_sign_on(*, actor: User) -> None:
    """End that `actor` signs on with the provider; the password stays."""
    if SocialAccount.objects.filter(user=actor).delete()[0]:
        audit.record(actor=actor, action="user.sign_on_unlink", thing=actor)


def _identity(claims: Mapping[str, Any]) -> dict[str, str]:
    subject = claims["sub"]
    if len(subject) > LONGEST_SUBJECT:
        subject = f"sha256:{hashlib.sha256(subject.encode()).hexdigest()}"
    return {"provider": settings.OIDC_ISSUER, "uid": subject}


def _link(user: User, claims: Mapping[str, Any]) -> None:
    SocialAccount.objects.create(user=user, **_identity(claims))


def _newcomer(claims: Mapping[str, Any]) -> User:
    if not settings.OIDC_ALLOW_NEW_USERS:
        raise NotSignedOn(
            f"{settings.OIDC_NAME} knows you, Slipway does not. If you have a password here, sign in "
            "with it and link the two on your account page; otherwise ask an administrator."
        )
    wanted = str(claims.get("preferred_username") or claims.get("email") or claims["sub"])
    user = User(username=_free_name(wanted), email=_email_of(claims))
    user.first_name, user.last_name = _text(claims, "given_name"), _text(claims, "family_name")
    user.set_unusable_password()
    user.save()
    audit.record(actor=None, action="user.create", thing=user, after={"by": "single sign-on"})
    return user


def _free_name(wanted: str) -> str:
    name = re.sub(r"[^A-Za-z0-9.@+_-]+", "-", wanted)[: LONGEST_NAME - 8].strip("-") or "person"
    number, free = 1, name
    while User.objects.filter(username__iexact=free).exists():
        number += 1
        free = f"{name}-{number}"
    return free


def _email_of(claims: Mapping[str, Any]) -> str:
    # Links to set a password go there: an address that nobody proved is not taken.
    email = claims.get("email") if claims.get("email_verified") is True else ""
    try:
        validate_email(email)
    except ValidationError:
        return ""
    return str(email)


def _is_name(given: object) -> bool:
    return isinstance(given, str) and given.isprintable() and given != ""


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    kept = "".join(sign for sign in value if sign.isprintable()) if isinstance(value, str) else ""
    return kept.strip()[:LONGEST_NAME]


def _follow_groups(user: User, claims: Mapping[str, Any]) -> None:
    """Make the person a member of exactly those groups of the provider that it names today."""
    if not settings.OIDC_GROUPS_CLAIM:
        return
    named = claims.get(settings.OIDC_GROUPS_CLAIM)
    names = [name for name in named if _is_name(name)] if isinstance(named, list) else []
    if len(names) > SIGN_ON_GROUPS:
        raise NotSignedOn(f"The provider names more than {SIGN_ON_GROUPS} for you.")
    theirs = set(UserGroup.objects.filter(external_name__in=names))
    before = set(user.user_groups.exclude(external_name=""))
    if theirs == before:
        return
    user.user_groups.remove(*(before - theirs))
    user.user_groups.add(*(theirs - before))
    audit.record(
        actor=None,
        action="user.follow_groups",
        thing=user,
        before={"groups": sorted(group.external_name for group in before)},
        after={"groups": sorted(group.external_name for group in theirs)},
    )
