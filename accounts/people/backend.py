"""Checks passwords, and keeps everybody out who is no active person."""

from allauth.account.auth_backends import AuthenticationBackend
from django.contrib.auth.base_user import AbstractBaseUser

from accounts.people.adapter import may_sign_in
from rbac.models import User


class PeopleBackend(AuthenticationBackend):
    """User name and password; asked again at each request, so a deactivated person is out at once."""

    def user_can_authenticate(self, user: AbstractBaseUser | None) -> bool:
        return isinstance(user, User) and may_sign_in(user)
