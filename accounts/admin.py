"""Users in the admin site; the sign-in library's tables are removed from it."""

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from allauth.usersessions.models import UserSession
from django.contrib import admin

from accounts.authentication.sessions import disable_user
from rbac.admin import UserAdmin
from rbac.models import User

admin.site.unregister([EmailAddress, Authenticator, SocialAccount, SocialApp, SocialToken, UserSession])
admin.site.unregister(User)


@admin.register(User)
class UserSessionAdmin(UserAdmin):
    """People and programs; disabling one ends their sessions, as on the page of the person."""

    def set_active(self, actor: User, person: User, *, is_active: bool) -> None:
        """Disable a user and end their sessions, or enable one. Raises `Forbidden`, `ValidationError`."""
        if is_active:
            super().set_active(actor, person, is_active=True)
        else:
            disable_user(actor=actor, person=person)
