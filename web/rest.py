"""What the routes of the API share: who asks, which rows are meant, which version of them."""

import json
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar, cast

from django.db.models import Model, Q, QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.exceptions import Throttled
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer, Serializer
from rest_framework.views import APIView

from guards.limits import PAGE_ROWS
from rbac.models import Scope, User
from rbac.permissions import SHARED_VIEWS
from rbac.policy import NotVisible, scopes_of_member, visible_to
from web.bodies import refuse_body, refuse_strange, takes_nothing, without_unchanged
from web.pages import get_visible
from web.paging import CursorPage, paged
from web.problems import BadInput, ChangedMeanwhile, NoSuchScope
from web.rate import RATE_SENTENCE, WINDOW_SECONDS, ApiRate, add_headers, most_at_once

Thing = TypeVar("Thing", bound=Model)

_TRUE, _FALSE = ("1", "true"), ("", "0", "false")
ORG = OpenApiParameter("org", OpenApiTypes.STR, description="Identifier of an organization.")
PROJECT = OpenApiParameter("project", OpenApiTypes.STR, description="Identifier of a project of `org`.")
IDENTIFIER = OpenApiParameter(
    "identifier", OpenApiTypes.STR, description="Only the one with this identifier."
)
PAGE_SIZE = OpenApiParameter(
    "page_size",
    # As many digits as the most has: a page of 999 is one of 200.
    {"type": "integer", "minimum": 1, "maximum": 10 ** len(f"{int(PAGE_ROWS)}") - 1},
    description=f"Rows of a page, {int(PAGE_ROWS)} at most.",
)
CURSOR = OpenApiParameter("cursor", OpenApiTypes.STR, description="Where the page begins; taken from `next`.")
IF_MATCH = OpenApiParameter(
    "If-Match", OpenApiTypes.STR, OpenApiParameter.HEADER, description="The ETag of the version to change."
)
ALTHOUGH_USED = OpenApiParameter(
    "although_used", OpenApiTypes.BOOL, description="Delete it even if something refers to it."
)
PAGED = [PAGE_SIZE, CURSOR]
LISTED = [ORG, PROJECT, IDENTIFIER, *PAGED]
SHARED = OpenApiParameter(
    "shared",
    OpenApiTypes.BOOL,
    description="Also what hangs above that scope and is shared with it.",
)


class Route(APIView):
    """The base of every route: a signed-in principal, lists in pages."""

    throttle_classes = [ApiRate]
    # For the description alone: `page` is what cuts a list.
    pagination_class: type[CursorPage] | None = CursorPage
    order = "pk"
    oldest_first = False

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        finished = super().finalize_response(request, response, *args, **kwargs)
        add_headers(request, finished)
        return finished

    def throttled(self, request: Request, wait: float) -> NoReturn:
        raise Throttled(wait, detail=RATE_SENTENCE.format(most=most_at_once(), seconds=WINDOW_SECONDS))

    @property
    def principal(self) -> User:
        """Who asks; nobody else gets this far."""
        user = self.request.user
        if not isinstance(user, User):
            raise TypeError("Routes serve signed-in users only.")
        return user

    def is_set(self, name: str) -> bool:
        """Whether ?name=true, or =1, is in the address. Raises `BadInput` for what is neither yes nor no."""
        return truth_of(self.request.GET.get(name, ""), name)

    def page(self, queryset: QuerySet[Any], document: Callable[[Any], Any]) -> Response:
        """Answer with the page of `queryset` that is asked for, each row as its document."""
        pages = CursorPage()
        rows = pages.paginate_queryset(queryset, self.request, self)
        return pages.get_paginated_response([_plain(document(row)) for row in rows])

    def page_of(
        self, items: Sequence[Any], document: Callable[[Any], Any], *, key: Callable[[Any], str]
    ) -> Response:
        """As `page`, of what no table holds: in the order of the unique `key`."""
        pages = CursorPage()
        pages.page = paged(items, self.request, key=key)
        return pages.get_paginated_response([_plain(document(row)) for row in pages.page.items])

    def listed(
        self,
        permission: str,
        queryset: QuerySet[Any],
        document: Callable[[Any], Any],
        *,
        by_identifier: bool = True,
    ) -> Response:
        """Answer with what `permission` is granted on, narrowed by ?org=, ?project= and ?identifier=.

        With ?shared=true a scope stands for what is shared with it from above too.
        """
        visible = visible_to(self.principal, permission, queryset)
        is_shared = permission in SHARED_VIEWS and self.is_set("shared")
        found = narrowed(self.request, visible, by_identifier=by_identifier, with_shared=is_shared)
        return self.page(found, document)

    def one(self, permission: str, queryset: QuerySet[Thing], **lookup: Any) -> Thing:
        """Return the row that is meant. Raises `NotVisible` (404) where there is none for this principal."""
        return get_visible(self.request, permission, queryset, **lookup)

    def one_of(self, visible: QuerySet[Thing], **lookup: Any) -> Thing:
        """Return the row that is meant of rows that may all be seen. Raises `NotVisible` (404)."""
        found = visible.filter(**lookup).first()
        if found is None:
            raise NotVisible("There is nothing here that you may see.")
        return found

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if takes_nothing(self):
            refuse_body(request.data)

    def given(self, serializer: type[Serializer[Any]], *, partial: bool = False) -> dict[str, Any]:
        """Return the body, checked by `serializer`; it may hold no other keys.

        What GET answers may be sent back whole: there, keys that nobody sets are left out while they say what
        GET says. Raises the serializer's `ValidationError`, or `BadInput`.
        """
        # The parsers give nothing else.
        body, fields = cast(dict[str, Any], self.request.data), serializer().fields
        if self.request.method in ("PUT", "PATCH") and not body.keys() <= fields.keys():
            is_whole = self.request.method == "PUT"
            # What a PATCH does not change need not be sent, and is not always sent as it is read.
            needed = {name for name, field in fields.items() if is_whole or field.required}
            body = without_unchanged(body, self._document(), known=fields, needed=needed)
        checked = serializer(data=body, partial=partial)
        refuse_strange(checked, body)
        checked.is_valid(raise_exception=True)
        return dict(checked.validated_data)

    def _document(self) -> dict[str, Any]:
        """What GET answers at this address, as it is sent; empty where there is nothing."""
        reading = getattr(self, "get", None)
        try:
            answer = reading(self.request, *self.args, **self.kwargs).data if reading else {}
        except NotVisible:
            return {}
        found = json.loads(JSONRenderer().render(answer))
        return found if isinstance(found, dict) else {}

    def scope_named(self) -> Scope:
        """Return where a new thing is to hang: `scope`, or `org` and `project`, of the body or address.

        What exists hangs where its address says, whatever its document repeats.
        """
        if path := self._named("scope"):
            return self.scope_at(path)
        org, project = (self._named(name) for name in ("org", "project"))
        if project and not org:
            raise NoSuchScope("A project needs its org.", errors=[{"path": "org", "message": "is missing"}])
        return self.scope_at(path_of(org, project))

    def scope_at(self, path: str) -> Scope:
        """Return the scope of `path`, of which one must be a member. Raises `NotVisible` (404)."""
        found = scopes_of_member(self.principal).filter(path=path).first()
        if found is None:
            raise NotVisible("There is no such scope for you.")
        return found

    def _named(self, name: str) -> str:
        body = self.request.data if self.request.method == "POST" else None
        value = (body.get(name) if isinstance(body, dict) else None) or self.request.GET.get(name) or ""
        if not isinstance(value, str):
            raise BadInput("The input is not valid.", errors=[{"path": name, "message": "must be a text"}])
        return value


def truth_of(text: str, name: str) -> bool:
    """Read a parameter that is true or false. Raises `BadInput`."""
    if text.lower() not in _TRUE + _FALSE:
        raise BadInput("The input is not valid.", errors=[{"path": name, "message": "use true or false"}])
    return text.lower() in _TRUE


def narrowed(
    request: Request, queryset: QuerySet[Thing], *, by_identifier: bool = True, with_shared: bool = False
) -> QuerySet[Thing]:
    """Apply the filters that every list of resources has; a scope stands for itself and all below it."""
    if by_identifier and (identifier := request.GET.get("identifier")):
        queryset = queryset.filter(identifier=identifier)
    org, project = request.GET.get("org", ""), request.GET.get("project", "")
    if project and not org:
        raise NoSuchScope("A project needs its org.", errors=[{"path": "org", "message": "is missing"}])
    if org:
        path = path_of(org, project)
        near = Q(path=path) | Q(parent__path=path) | Q(parent__parent__path=path)
        if with_shared:
            near |= Q(path__in=[Scope.ROOT, path_of(org, "")])
        column = getattr(queryset.model, "SCOPE_PATH", "scope")
        # Asked first, as in `visible_below`: a planner has to know how many rows to expect.
        keys = Scope.objects.filter(near).values_list("pk", flat=True)
        queryset = queryset.filter(**{f"{column}__in": list(keys)})
    return queryset


def _plain(document: Any) -> Any:
    return document.data if isinstance(document, BaseSerializer) else document


def path_of(org: str, project: str) -> str:
    """Return the path of a scope by what its parts are called."""
    return "/".join(part for part in (Scope.ROOT, org, project) if part)


def scope_fields(scope: Scope) -> dict[str, str]:
    """Return how a document names its scope; `scope` must come with the row."""
    return {"scope": scope.path, "org": scope.org, "project": scope.project}


def etag_of(version: object) -> str:
    """Return the entity tag of a version."""
    return f'"{version}"'


def check_version(request: Request, version: object) -> None:
    """Do nothing where If-Match is absent or names `version`. Raises `ChangedMeanwhile` (412) otherwise."""
    asked = [tag.strip().removeprefix("W/") for tag in request.headers.get("If-Match", "").split(",")]
    if asked in ([""], ["*"]) or etag_of(version) in asked:
        return
    raise ChangedMeanwhile("Somebody changed this after you loaded it. Load it again, then make your change.")


def versioned(content: Any, version: object, status: int = 200) -> Response:
    """Answer with a document and the ETag that a later If-Match can name."""
    return Response(content, status=status, headers={"ETag": etag_of(version)})
