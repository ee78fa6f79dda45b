"""Sign-in gate of pages, and the rows that a page may show."""

from collections.abc import Callable, Iterable
from functools import wraps
from itertools import chain
from typing import Any, Concatenate, ParamSpec, TypeVar, cast
from urllib.parse import urlencode, urlsplit, urlunsplit

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import redirect, resolve_url
from django.views.decorators.http import require_http_methods
from rest_framework.request import Request

from rbac.models import Scope, User
from rbac.permissions import SHARED_VIEW_PERMISSIONS
from rbac.policy import NotVisible, Principal, filter_visible

Parameters = ParamSpec("Parameters")
Thing = TypeVar("Thing", bound=Model)
View = Callable[Concatenate[HttpRequest, Parameters], HttpResponseBase]

require_get_or_post = require_http_methods(["GET", "HEAD", "POST"])


class PageRequest(HttpRequest):
    """What a view behind `page` is handed: somebody is signed in, and a scope may be chosen."""

    user: User
    current_scope: Scope | None
    # Entered values of a form that the user left to create a resource for it.
    draft_data: QueryDict | None


PageView = Callable[Concatenate[PageRequest, Parameters], HttpResponseBase]


def require_sign_in(view: PageView[Parameters]) -> View[Parameters]:
    """Serve `view` to signed-in people only; others go to the sign-in page and come back."""

    @wraps(view)
    def gated(request: HttpRequest, *args: Parameters.args, **kwargs: Parameters.kwargs) -> HttpResponseBase:
        if request.user.is_authenticated:
            return view(cast(PageRequest, request), *args, **kwargs)
        return _redirect_to_sign_in(request)

    return gated


def _redirect_to_sign_in(request: HttpRequest) -> HttpResponseBase:
    if request.headers.get("HX-Request"):
        # The page around the fragment shows that the session has ended, and keeps what was entered.
        return HttpResponse(status=401)
    if request.method in ("GET", "HEAD"):
        return redirect_to_login(request.get_full_path())
    # The address of a form may take POST only, so the user returns to the page with the form.
    return redirect(f"{resolve_url(settings.LOGIN_URL)}?{_build_sign_in_query(request)}")


def _build_sign_in_query(request: HttpRequest) -> str:
    """Return the query with the page of the form, and with a mark for an action not performed."""
    query = {"unsent": "1"}
    try:
        page = urlsplit(request.headers.get("Referer", ""))
    except ValueError:
        page = urlsplit("")
    if page.netloc == request.get_host():
        query["next"] = urlunsplit(("", "", page.path, page.query, ""))
    return urlencode(query)


def get_visible(
    request: HttpRequest | Request, permission: str, queryset: QuerySet[Thing], **lookup: Any
) -> Thing:
    """Return the one row of `queryset` that `permission` is granted on.

    Raises `NotVisible` (404) where there is none, for whatever reason.
    """
    principal: Principal = request.user
    try:
        return filter_visible(principal, permission, queryset).get(**lookup)
    except (ObjectDoesNotExist, ValueError, ValidationError, OverflowError) as exc:
        raise NotVisible(
            f"This {queryset.model._meta.verbose_name} does not exist, or you cannot view it."
        ) from exc


ListedRow = TypeVar("ListedRow", bound=Model)


def list_visible(request: PageRequest, permission: str, queryset: QuerySet[ListedRow]) -> QuerySet[ListedRow]:
    """Return the rows in the chosen scope that the user can view.

    Includes rows of scopes above if the resource type is shared, such as connectors.
    """
    scope = request.current_scope
    if scope is None:
        return queryset.none()
    above = list_ancestor_ids(scope) if permission in SHARED_VIEW_PERMISSIONS else []
    return filter_visible(request.user, permission, queryset, scope, above)


def list_ancestor_ids(scope: Scope) -> list[int]:
    """Return the keys of the scopes above `scope`, without a query if its parent is loaded."""
    above = (scope.parent_id, scope.parent.parent_id if scope.parent is not None else None)
    return [key for key in above if key is not None]


def get_list_topics(request: PageRequest, *names: str, is_shared: bool = False) -> str:
    """Return the topics of lists in the chosen scope; `is_shared` adds those of the scopes above."""
    scope = request.current_scope
    if scope is None:
        return ""
    ancestor_ids = list_ancestor_ids(scope) if is_shared else []
    topics = ([f"{name}:{scope.pk}", *(f"{name}-at:{pk}" for pk in ancestor_ids)] for name in names)
    return " ".join(chain.from_iterable(topics))


def get_permitted_ids(
    request: PageRequest, permission: str, model: type[ListedRow], items: Iterable[ListedRow]
) -> set[Any]:
    """Return the keys of the rows on which the user has a permission, in one query."""
    principal: Principal = request.user
    rows = model._default_manager.filter(pk__in=[item.pk for item in items])
    return set(filter_visible(principal, permission, rows).values_list("pk", flat=True))
