"""Base view of the API: principal, visible rows, checked bodies, paged lists, entity tags."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, TypeVar, cast

from django.db.models import Model, Q, QuerySet
from rest_framework.exceptions import Throttled
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer, Serializer
from rest_framework.views import APIView

from rbac.models import Scope, User
from rbac.permissions import SHARED_VIEW_PERMISSIONS
from rbac.policy import NotVisible, filter_visible, list_member_scopes
from web.api.idempotency import answer_once, parse_idempotency_key, takes_idempotency_key
from web.api.parameters import parse_boolean
from web.api.proposed_changes import respond_with_proposal
from web.api.rate_limits import (
    RATE_LIMIT_MESSAGE,
    WINDOW_SECONDS,
    ApiRateThrottle,
    add_rate_limit_headers,
    get_window_limit,
)
from web.api.request_bodies import drop_unchanged, is_bodiless, validate_body, validate_empty_body
from web.forms.pages import get_visible
from web.http.pagination import CursorPagination, paginate_items
from web.http.problems import BadInput, ScopeNotFound, VersionConflict
from web.managed_resources import ChangeProposed

Thing = TypeVar("Thing", bound=Model)


class BaseApiView(APIView):
    """Base of every route, with authentication and pagination."""

    throttle_classes = [ApiRateThrottle]
    # For the OpenAPI document alone: `page` paginates lists.
    pagination_class: type[CursorPagination] | None = CursorPagination
    order = "pk"
    oldest_first = False
    # Field of the answer to POST that is shown once, and therefore not kept for repeated requests.
    one_time_field = ""

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        finished = super().finalize_response(request, response, *args, **kwargs)
        add_rate_limit_headers(request, finished)
        return finished

    def handle_exception(self, exc: Exception) -> Response:
        """Return the answer to an error; that to a proposed change is 202, and is stored here."""
        return (
            respond_with_proposal(exc) if isinstance(exc, ChangeProposed) else super().handle_exception(exc)
        )

    def throttled(self, request: Request, wait: float) -> NoReturn:
        raise Throttled(
            wait, detail=RATE_LIMIT_MESSAGE.format(most=get_window_limit(), seconds=WINDOW_SECONDS)
        )

    @property
    def principal(self) -> User:
        """Return the authenticated principal."""
        user = self.request.user
        if not isinstance(user, User):
            raise TypeError("Sign in to use this route.")
        return user

    def is_flag_set(self, name: str) -> bool:
        """Return whether the query has ?name=true or =1.

        Raises `BadInput` for a value that is not Boolean.
        """
        return parse_boolean(self.request.GET.get(name, ""), name)

    def paginate(self, queryset: QuerySet[Any], document: Callable[[Any], Any]) -> Response:
        """Return a response with the requested page of `queryset`, each row as its document."""
        pages = CursorPagination()
        rows = pages.paginate_queryset(queryset, self.request, self)
        return pages.get_paginated_response(_serialize_rows(rows, document))

    def paginate_items(
        self, items: Sequence[Any], document: Callable[[Any], Any], *, key: Callable[[Any], str]
    ) -> Response:
        """Paginate items without a table, in the order of the unique `key`."""
        pages = CursorPagination()
        pages.page = paginate_items(items, self.request, key=key)
        return pages.get_paginated_response(_serialize_rows(pages.page.items, document))

    def list_visible(
        self,
        permission: str,
        queryset: QuerySet[Any],
        document: Callable[[Any], Any],
        *,
        by_identifier: bool = True,
    ) -> Response:
        """List the rows on which `permission` is granted, filtered by ?org=, ?project= and ?identifier=.

        With ?shared=true a scope includes the shared rows of the scopes above.
        """
        visible = filter_visible(self.principal, permission, queryset)
        is_shared = permission in SHARED_VIEW_PERMISSIONS and self.is_flag_set("shared")
        result = filter_by_scope(self.request, visible, by_identifier=by_identifier, with_shared=is_shared)
        return self.paginate(result, document)

    def get_visible(
        self, permission: str, queryset: QuerySet[Thing], *, lock: bool = False, **lookup: Any
    ) -> Thing:
        """Return the row in the URL, with `lock` locked until the transaction ends.

        Raises `NotVisible` (404) if this principal cannot view it.
        """
        rows = queryset.select_for_update(of=("self",)) if lock else queryset
        return get_visible(self.request, permission, rows, **lookup)

    def get_row(self, visible: QuerySet[Thing], **lookup: Any) -> Thing:
        """Return the row in the URL from rows that are all visible. Raises `NotVisible` (404)."""
        result = visible.filter(**lookup).first()
        if result is None:
            raise NotVisible("Not found, or you cannot view it.")
        return result

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if is_bodiless(self):
            validate_empty_body(request.data)
        if takes_idempotency_key(self) and (key := parse_idempotency_key(request)):
            # The framework looks the handler up after this.
            handler = getattr(self, "post")  # noqa: B009 - views without POST have none
            self.__dict__["post"] = answer_once(handler, key, one_time_field=self.one_time_field)

    def get_validated_body(
        self, serializer: type[Serializer[Any]], *, partial: bool = False
    ) -> dict[str, Any]:
        """Return the body, validated by `serializer`, without unknown keys.

        The body may be the complete GET document: read-only keys are dropped if they are unchanged. Raises
        the serializer's `ValidationError`, or `BadInput`.
        """
        # The parsers give nothing else.
        body, fields = cast(dict[str, Any], self.request.data), serializer().fields
        if self.request.method in ("PUT", "PATCH") and not body.keys() <= fields.keys():
            is_whole = self.request.method == "PUT"
            # PATCH may omit unchanged fields, which are not always writable in their read format.
            needed = {name for name, field in fields.items() if is_whole or field.required}
            body = drop_unchanged(body, self._get_current_document(), accepted=fields, needed=needed)
        checked = serializer(data=body, partial=partial)
        validate_body(checked, body)
        checked.is_valid(raise_exception=True)
        return dict(checked.validated_data)

    def _get_current_document(self) -> dict[str, Any]:
        """Return the GET document of this URL, or an empty mapping."""
        reading = getattr(self, "get", None)
        try:
            answer = reading(self.request, *self.args, **self.kwargs).data if reading else {}
        except NotVisible:
            return {}
        result = json.loads(JSONRenderer().render(answer))
        return result if isinstance(result, dict) else {}

    def get_named_scope(self) -> Scope:
        """Return the scope of a new resource: `scope`, or `org` and `project`, of the body or the URL.

        The URL determines the scope of an existing resource; its document is ignored.
        """
        if path := self._get_parameter("scope"):
            return self.get_scope(path)
        org, project = (self._get_parameter(name) for name in ("org", "project"))
        if project and not org:
            raise ScopeNotFound(
                "A project requires its org.", errors=[{"path": "org", "message": "is missing"}]
            )
        return self.get_scope(build_scope_path(org, project))

    def get_scope(self, path: str) -> Scope:
        """Return the scope of `path`. The caller must be a member. Raises `NotVisible` (404)."""
        result = list_member_scopes(self.principal).filter(path=path).first()
        if result is None:
            raise NotVisible("This scope does not exist, or you cannot view it.")
        return result

    def _get_parameter(self, name: str) -> str:
        body = self.request.data if self.request.method == "POST" else None
        value = (body.get(name) if isinstance(body, dict) else None) or self.request.GET.get(name) or ""
        if not isinstance(value, str):
            raise BadInput("The input is not valid.", errors=[{"path": name, "message": "must be a text"}])
        return value


def filter_by_scope(
    request: Request, queryset: QuerySet[Thing], *, by_identifier: bool = True, with_shared: bool = False
) -> QuerySet[Thing]:
    """Apply the filters of all resource lists; a scope includes the scopes below it."""
    if by_identifier and (identifier := request.GET.get("identifier")):
        queryset = queryset.filter(identifier=identifier)
    org, project = request.GET.get("org", ""), request.GET.get("project", "")
    if project and not org:
        raise ScopeNotFound("A project requires its org.", errors=[{"path": "org", "message": "is missing"}])
    if org:
        path = build_scope_path(org, project)
        scope_filter = Q(path=path) | Q(parent__path=path) | Q(parent__parent__path=path)
        if with_shared:
            scope_filter |= Q(path__in=[Scope.ROOT, build_scope_path(org, "")])
        column = getattr(queryset.model, "SCOPE_PATH", "scope")
        # By keys, as in `filter_visible`: a query planner needs the expected rows.
        keys = Scope.objects.filter(scope_filter).values_list("pk", flat=True)
        queryset = queryset.filter(**{f"{column}__in": list(keys)})
    return queryset


def _serialize_rows(rows: Iterable[Any], document: Callable[[Any], Any]) -> list[Any]:
    if isinstance(document, type) and issubclass(document, BaseSerializer):
        # One serializer for all: each copies its fields, which takes longer than a row.
        serializer = document()
        return [serializer.to_representation(row) for row in rows]
    documents = map(document, rows)
    return [item.data if isinstance(item, BaseSerializer) else item for item in documents]


def build_scope_path(org: str, project: str) -> str:
    """Return the path of a scope from its identifiers."""
    return "/".join(part for part in (Scope.ROOT, org, project) if part)


def describe_scope(scope: Scope) -> dict[str, str]:
    """Return the scope fields of a document; `scope` must be loaded."""
    return {"scope": scope.path, "org": scope.org, "project": scope.project}


def build_etag(version: object) -> str:
    """Return the entity tag of a version."""
    return f'"{version}"'


def check_version(request: Request, version: object) -> None:
    """Check If-Match against `version`. Raises `VersionConflict` (412)."""
    expected_tags = [tag.strip().removeprefix("W/") for tag in request.headers.get("If-Match", "").split(",")]
    if expected_tags in ([""], ["*"]) or build_etag(version) in expected_tags:
        return
    raise VersionConflict("Another user changed this after you loaded it. Reload it, then apply your change.")


def respond_with_etag(content: Any, version: object, status: int = 200) -> Response:
    """Return a response with a document and its ETag for If-Match."""
    return Response(content, status=status, headers={"ETag": build_etag(version)})
