"""Users in the admin site; the sign-in library's tables are removed from it."""

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from allauth.usersessions.models import UserSession
from django.contrib import admin
from django.http import HttpRequest

from accounts.authentication.sessions import disable_user, enable_user, end_all_sessions, record_activity
from rbac.admin import UserAdmin
from rbac.models import User

admin.site.unregister([EmailAddress, Authenticator, SocialAccount, SocialApp, SocialToken, UserSession])
admin.site.unregister(User)


@admin.register(User)
class UserSessionAdmin(UserAdmin):
    """People and programs; disabling one or a new password ends their sessions, as on the pages."""

    def set_active(self, actor: User, person: User, *, is_active: bool) -> None:
        """Disable or enable a user, and end their sessions. Raises `Forbidden`, `ValidationError`."""
        if is_active:
            enable_user(actor=actor, person=person)
        else:
            disable_user(actor=actor, person=person)

    def finish_password_change(self, request: HttpRequest, person: User) -> None:
        """Record the new password of a user, and end their sessions except that of the request."""
        super().finish_password_change(request, person)
        end_all_sessions(person)
        # Django has given the session of the request a new key.
        record_activity(request)
