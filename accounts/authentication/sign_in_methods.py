"""Ways in which a user can sign in: password, passkeys that replace it, and single sign-on."""

from typing import Final

from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.db.models import QuerySet

from rbac.models import User

NO_OTHER_SIGN_IN: Final = (
    "You have no other way to sign in. Add a passkey that works without a password, or ask an administrator"
    " to set a password."
)
PASSKEYS_ONLY: Final = (
    "This user signs in with passkeys only, and could not sign in without them. Set a password first: in the"
    " admin site, or with the command changepassword. Then reset the second factor."
)


def is_single_sign_on_enabled() -> bool:
    """Return whether a provider is configured."""
    return bool(settings.OIDC_ISSUER)


def list_links() -> QuerySet[SocialAccount]:
    """Return the links of users to the configured provider; a link to a former one opens nothing."""
    return SocialAccount.objects.filter(provider=settings.OIDC_ISSUER).exclude(provider="")


def is_linked(person: User) -> bool:
    """Return whether a user is linked to the configured provider."""
    return list_links().filter(user=person).exists()


def has_other_sign_in(person: User) -> bool:
    """Return whether a user can sign in without single sign-on: with a password, or a passkey alone."""
    return person.has_usable_password() or bool(_list_passwordless_passkeys(person))


def is_last_sign_in(person: User, pk: int) -> bool:
    """Return whether a user can sign in with this passkey only, without password and single sign-on."""
    return signs_in_with_passkeys_only(person) and _list_passwordless_passkeys(person) == {pk}


def signs_in_with_passkeys_only(person: User) -> bool:
    """Return whether a user can sign in with passkeys, but neither with a password nor single sign-on."""
    if person.has_usable_password() or is_linked(person):
        return False
    return bool(_list_passwordless_passkeys(person))


def explain_last_sign_in() -> str:
    """Return why the only way to sign in is not removed, and what to do."""
    link = ", or link single sign-on" if is_single_sign_on_enabled() else ""
    return (
        f"Without it you could not sign in. Add another passkey that works without a password{link}, then "
        "remove this one."
    )


def _list_passwordless_passkeys(person: User) -> set[int]:
    """Return the keys of the rows of a user's passkeys that work without a password."""
    rows = Authenticator.objects.filter(user=person, type=Authenticator.Type.WEBAUTHN)
    return {row.pk for row in rows if row.data.get("is_passwordless")}
