"""The sign-in form."""

from typing import Any

from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import ValidationError

from rbac import throttle

TOO_MANY = "too_many"


class SignInForm(AuthenticationForm):
    """User name and password; refuses to look at them after too many failures."""

    def clean(self) -> dict[str, Any]:
        account = self.cleaned_data.get("username", "")
        address = self.request.META.get("REMOTE_ADDR", "") if self.request else ""
        if not throttle.admit(account=account, address=address):
            raise ValidationError("Too many failed sign-ins. Wait some minutes, then try again.", TOO_MANY)
        cleaned: dict[str, Any] = super().clean()
        if self.get_user() is not None:
            throttle.forgive(account=account, address=address)
        return cleaned

    @property
    def is_throttled(self) -> bool:
        return self.has_error("__all__", TOO_MANY)
