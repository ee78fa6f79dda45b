"""Middleware that requires a second factor for the admin site."""

from collections.abc import Callable

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect

from accounts.authentication.two_factor import has_two_factor
from rbac.models import User


class AdminSecondFactorMiddleware:
    """Middleware that redirects users without a second factor from the admin site to its setup."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        is_required = settings.ADMIN_NEEDS_SECOND_FACTOR and request.path.startswith("/admin/")
        if is_required and isinstance(request.user, User) and not has_two_factor(request.user):
            messages.warning(
                request,
                "The admin site requires two-factor authentication. Add a passkey or set up an authenticator"
                " app first.",
            )
            return redirect("second-factor")
        return self.get_response(request)
