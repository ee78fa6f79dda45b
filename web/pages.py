"""What every HTML view begins with: signed in, and only what the person may see."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import resolve_url
from rest_framework.request import Request

from rbac.models import Scope, User
from rbac.policy import NotVisible, Principal, visible_to

Parameters = ParamSpec("Parameters")
Thing = TypeVar("Thing", bound=Model)
View = Callable[Concatenate[HttpRequest, Parameters], HttpResponseBase]


class PageRequest(HttpRequest):
    """What a view behind `page` is handed: somebody is signed in, and a scope may be chosen."""

    user: User
    current_scope: Scope | None


PageView = Callable[Concatenate[PageRequest, Parameters], HttpResponseBase]


def page(view: PageView[Parameters]) -> View[Parameters]:
    """Serve `view` to signed-in people only; others go to the sign-in page and come back."""

    @wraps(view)
    def gated(request: HttpRequest, *args: Parameters.args, **kwargs: Parameters.kwargs) -> HttpResponseBase:
        if request.user.is_authenticated:
            return view(cast(PageRequest, request), *args, **kwargs)
        if request.headers.get("HX-Request"):
            # A fragment swapped into a page must not become a sign-in form in the middle of it.
            return HttpResponse(status=401, headers={"HX-Redirect": resolve_url(settings.LOGIN_URL)})
        return redirect_to_login(request.get_full_path())

    return gated


def get_visible(
    request: HttpRequest | Request, permission: str, queryset: QuerySet[Thing], **lookup: Any
) -> Thing:
    """Return the one row of `queryset` that `permission` is granted on.

    Raises `NotVisible` (404) where there is none, for whatever reason.
    """
    principal: Principal = request.user
    try:
        return visible_to(principal, permission, queryset).get(**lookup)
    except (ObjectDoesNotExist, ValueError, ValidationError, OverflowError) as exc:
        raise NotVisible(f"No such {queryset.model._meta.verbose_name}.") from exc
