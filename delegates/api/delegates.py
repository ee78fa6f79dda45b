"""Routes of delegates: the list, one of them, its tags, its log, its events, and what people decide."""

from collections.abc import Callable

from django.db.models import QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from delegates.api.delegate_documents import (
    DelegateChange,
    DelegateDocument,
    DelegateEventDocument,
    DelegateLogDocument,
    DelegateTags,
    documents_of,
)
from delegates.connectivity import Connectivity
from delegates.models import Delegate, DelegateConfiguration, DelegateEvent
from delegates.operations import delegates as operations
from delegates.queries.delegate_logs import log_of
from delegates.queries.delegates import VIEW, with_instances, with_status, with_tag
from rbac.policy import visible_to
from web.asked import number_in
from web.clock import database_now
from web.paging import CursorPage
from web.problems import BadInput
from web.rest import ALTHOUGH_USED, IF_MATCH, ORG, PAGED, PROJECT, Route, check_version, narrowed, versioned

NAME = OpenApiParameter("name", OpenApiTypes.STR, description="Only the delegates of this name.")
TAG = OpenApiParameter("tag", OpenApiTypes.STR, description="Only delegates that this selector means.")
STATUS = OpenApiParameter(
    "status", OpenApiTypes.STR, enum=[one.value for one in Connectivity], description="Only of this status."
)
INSTANCE = OpenApiParameter("instance", OpenApiTypes.INT, description="Whose log; the newest one's if empty.")
AFTER = OpenApiParameter(
    "after", OpenApiTypes.INT, description="The first line wanted: `next` of the last answer."
)


class Delegates(Route):
    """Delegates."""

    order = "name"
    oldest_first = True

    @extend_schema(
        parameters=[ORG, PROJECT, NAME, TAG, STATUS, *PAGED], responses=DelegateDocument(many=True)
    )
    def get(self, request: Request) -> Response:
        now = database_now()
        rows = narrowed(
            request, visible_to(self.principal, VIEW, Delegate.objects.all()), by_identifier=False
        )
        if name := request.GET.get("name"):
            rows = rows.filter(name=name)
        if tag := request.GET.get("tag"):
            rows = with_tag(rows, tag, now)
        if status := request.GET.get("status"):
            rows = with_status(rows, _known(status), now)
        pages = CursorPage()
        found = pages.paginate_queryset(_complete(rows), request, self)
        return pages.get_paginated_response(documents_of(found, now))


class OneDelegate(Route):
    """One delegate."""

    @extend_schema(responses=DelegateDocument)
    def get(self, request: Request, pk: int) -> Response:
        return _answer(_found(self, pk))

    @extend_schema(parameters=[IF_MATCH], request=DelegateChange, responses=DelegateDocument)
    def patch(self, request: Request, pk: int) -> Response:
        given, found = self.given(DelegateChange), _found(self, pk)
        check_version(request, _version(found))
        operations.update_delegate(
            actor=self.principal,
            delegate=found,
            description=given.get("description"),
            tags=given.get("tags"),
            shares_scripts=given.get("shares_scripts"),
            configuration=_configuration_named(self, found, given.get("configuration")),
        )
        return _answer(_found(self, pk))

    @extend_schema(parameters=[ALTHOUGH_USED], responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        operations.delete_delegate(
            actor=self.principal, delegate=_found(self, pk), although_used=self.is_set("although_used")
        )
        return Response(status=204)


class DelegateOwnTags(Route):
    """The tags that people gave a delegate; what its agents say of themselves stays."""

    @extend_schema(request=DelegateTags, responses=DelegateDocument)
    def put(self, request: Request, pk: int) -> Response:
        tags = self.given(DelegateTags)["tags"]
        operations.update_delegate(actor=self.principal, delegate=_found(self, pk), tags=tags)
        return _answer(_found(self, pk))

    @extend_schema(responses={200: DelegateDocument})
    def delete(self, request: Request, pk: int) -> Response:
        operations.update_delegate(actor=self.principal, delegate=_found(self, pk), tags=[])
        return _answer(_found(self, pk))


class Decision(Route):
    """The base of routes by which somebody decides on a delegate."""

    operation: Callable[..., Delegate]

    @extend_schema(request=None, responses=DelegateDocument)
    def post(self, request: Request, pk: int) -> Response:
        type(self).operation(actor=self.principal, delegate=_found(self, pk))
        return _answer(_found(self, pk))


class DelegateApproval(Decision):
    """Letting a delegate work that waits for approval."""

    operation = staticmethod(operations.approve_delegate)


class DelegateRejection(Decision):
    """Refusing a delegate that waits for approval."""

    operation = staticmethod(operations.reject_delegate)


class DelegateDisabling(Decision):
    """Giving a delegate no more tasks until it is enabled."""

    operation = staticmethod(operations.disable_delegate)


class DelegateEnabling(Decision):
    """Letting a delegate work again that was disabled or drained."""

    operation = staticmethod(operations.enable_delegate)


class DelegateDraining(Decision):
    """Letting a delegate finish what it has, and take nothing new."""

    operation = staticmethod(operations.drain_delegate)


class DelegateLogs(Route):
    """The newest lines of what an agent wrote, or those that follow on lines that are known."""

    @extend_schema(parameters=[INSTANCE, AFTER], responses=DelegateLogDocument)
    def get(self, request: Request, pk: int) -> Response:
        instances = _found(self, pk).instances.order_by("-registered_at", "-pk")
        if (wanted := number_in(request, "instance")) is not None:
            instances = instances.filter(pk=wanted)
        return Response(DelegateLogDocument(log_of(instances.first(), number_in(request, "after"))).data)


class DelegateEvents(Route):
    """What happened to a delegate, newest first."""

    order = "at"

    @extend_schema(parameters=PAGED, responses=DelegateEventDocument(many=True))
    def get(self, request: Request, pk: int) -> Response:
        events = DelegateEvent.objects.filter(delegate=_found(self, pk)).select_related("instance__delegate")
        return self.page(events, DelegateEventDocument)


def _found(route: Route, pk: int) -> Delegate:
    return route.one(VIEW, _complete(Delegate.objects.all()), pk=pk)


def _complete(delegates: QuerySet[Delegate]) -> QuerySet[Delegate]:
    return with_instances(delegates).select_related("configuration__scope", "created_by")


def _answer(delegate: Delegate) -> Response:
    return versioned(documents_of([delegate], database_now())[0], _version(delegate))


def _version(delegate: Delegate) -> str:
    return f"{delegate.updated_at.timestamp():.6f}"


def _known(status: str) -> str:
    if status in list(Connectivity):
        return status
    message = f"is one of {', '.join(Connectivity)}"
    raise BadInput("The status of a delegate is not known.", errors=[{"path": "status", "message": message}])


def _configuration_named(
    route: Route, delegate: Delegate, identifier: str | None
) -> DelegateConfiguration | None:
    """The nearest configuration of that identifier at or above a delegate. Raises `BadInput`."""
    if not identifier:
        return None
    near = DelegateConfiguration.objects.filter(scope__path__in=delegate.scope.ancestor_paths())
    visible = visible_to(route.principal, "core_delegateconfiguration_view", near.select_related("scope"))
    found = visible.filter(identifier=identifier).order_by("-scope__path").first()
    if found is None:
        message = f"There is no configuration {identifier} here or above."
        raise BadInput(message, errors=[{"path": "configuration", "message": message}])
    return found
