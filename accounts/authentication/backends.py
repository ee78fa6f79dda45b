"""Authentication backend that admits active people only."""

from allauth.account.auth_backends import AuthenticationBackend
from django.contrib.auth.base_user import AbstractBaseUser

from accounts.authentication.adapters import can_sign_in
from rbac.models import User


class UserBackend(AuthenticationBackend):
    """User name and password; asked again at each request, so a deactivated person is out at once."""

    def user_can_authenticate(self, user: AbstractBaseUser | None) -> bool:
        return isinstance(user, User) and can_sign_in(user)
