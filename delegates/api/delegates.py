"""Routes of delegates: list, detail, tags, admission, log, events."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Prefetch, QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from connectors.specs.base import TAG_PATTERN, TAG_RULE
from delegates.api.instances import STATUSES, DelegateInstanceDocument, RefusedInstanceDocument
from delegates.api.setups import DelegateSetupChange, change_answers
from delegates.connectivity import Connectivity
from delegates.install.specs import NEW_NAME_PATTERN, NEW_NAME_PROBLEM
from delegates.install.wizard import WizardAnswers
from delegates.models import (
    Delegate,
    DelegateConfiguration,
    DelegateEvent,
    DelegateToken,
    RefusedInstance,
)
from delegates.operations import delegates as operations
from delegates.operations.installation import create_delegate
from delegates.queries.delays import list_delegate_delays
from delegates.queries.delegates import (
    VIEW,
    DelegateFacts,
    InstanceFacts,
    build_delegate_facts,
    count_running_tasks,
    filter_by_status,
    filter_by_tag,
    filter_outdated,
    list_instance_facts,
    list_last_ends,
    prefetch_instances,
)
from delegates.queries.history import read_agent_log
from guards.limits import DELEGATE_TAGS, DESCRIPTION_CHARACTERS, NAME_CHARACTERS, TAG_CHARACTERS
from rbac.models import Scope
from rbac.policy import filter_visible
from web.api.parameters import (
    FORCE_DELETE_PARAMETER,
    IF_MATCH_PARAMETER,
    ORG_PARAMETER,
    PAGE_PARAMETERS,
    PROJECT_PARAMETER,
    parse_number,
)
from web.api.views import BaseApiView, check_version, filter_by_scope, respond_with_etag
from web.api.work_delays import WorkDelaysDocument, respond_with_delays
from web.clock import get_database_time
from web.http.pagination import CursorPagination
from web.http.problems import BadInput


class DelegateDocument(serializers.Serializer[Any]):
    """Delegate; `tags` are all selectable tags, `own_tags` the ones that users set."""

    id = serializers.IntegerField(source="delegate.pk")
    name = serializers.CharField(source="delegate.name")
    description = serializers.CharField(source="delegate.description")
    kind = serializers.ChoiceField(choices=Delegate.Kind.choices, source="delegate.kind")
    flavour = serializers.CharField(source="delegate.flavour")
    size = serializers.CharField(source="delegate.size")
    scope = serializers.CharField(source="delegate.scope.path")
    org = serializers.CharField(source="delegate.scope.org")
    project = serializers.CharField(source="delegate.scope.project")
    status = serializers.ChoiceField(choices=STATUSES, source="facts.status")
    reason = serializers.CharField(source="facts.reason")
    differences = serializers.ListField(
        child=serializers.CharField(),
        source="facts.differences",
        help_text="Facts in which its connected instances differ, as sentences.",
    )
    unsupported_since = serializers.DateField(
        source="facts.unsupported_since",
        allow_null=True,
        help_text="Since when the release of an instance is unsupported; null if it is supported or unknown.",
    )
    archived_at = serializers.DateTimeField(source="delegate.archived_at", allow_null=True)
    admission = serializers.ChoiceField(choices=Delegate.Admission.choices, source="delegate.admission")
    draining = serializers.BooleanField(source="delegate.draining")
    is_built_in = serializers.BooleanField(source="delegate.is_built_in")
    shares_scripts = serializers.BooleanField(
        source="delegate.shares_scripts",
        help_text="Whether instances without isolation may run scripts of several projects.",
    )
    tags = serializers.ListField(child=serializers.CharField(), source="facts.tags")
    own_tags = serializers.ListField(child=serializers.CharField(), source="delegate.tags")
    configuration = serializers.CharField(
        source="delegate.configuration.identifier", default=None, allow_null=True
    )
    last_heartbeat_at = serializers.DateTimeField(source="facts.last_heartbeat_at", allow_null=True)
    connected_instances = serializers.IntegerField(source="facts.connected")
    capacity = serializers.IntegerField(source="facts.capacity")
    running = serializers.IntegerField(source="facts.running")
    instances = DelegateInstanceDocument(many=True)
    refused_instances = RefusedInstanceDocument(source="delegate.refused_instances.all", many=True)
    created_by = serializers.CharField(source="delegate.created_by.username", default="")
    created_at = serializers.DateTimeField(source="delegate.created_at")
    updated_at = serializers.DateTimeField(source="delegate.updated_at")


def _build_tags_field(**options: Any) -> serializers.ListField:
    """Build the field of a delegate's own tags; white space around them is cut off."""
    tag = serializers.RegexField(
        rf"^\s*{TAG_PATTERN.removeprefix('^').removesuffix('$')}\s*$",
        max_length=int(TAG_CHARACTERS),
        error_messages={"invalid": f"This is not a tag: {TAG_RULE}"},
    )
    return serializers.ListField(child=tag, max_length=int(DELEGATE_TAGS), **options)


class DelegateTags(serializers.Serializer[Any]):
    """User tags of a delegate, all of them."""

    tags = _build_tags_field()


class DelegateChange(serializers.Serializer[Any]):
    """Writable fields of a delegate; `configuration` is the identifier of a configuration at or above it."""

    description = serializers.CharField(
        required=False, allow_blank=True, max_length=int(DESCRIPTION_CHARACTERS)
    )
    tags = _build_tags_field(required=False)
    configuration = serializers.CharField(required=False, max_length=int(NAME_CHARACTERS))
    shares_scripts = serializers.BooleanField(required=False)


class NewDelegate(DelegateSetupChange):
    """Delegate to create with its setup; it connects once it is deployed, or its files are used."""

    name = serializers.RegexField(NEW_NAME_PATTERN, error_messages={"invalid": NEW_NAME_PROBLEM})
    tags = _build_tags_field()
    configuration = serializers.CharField(
        max_length=int(NAME_CHARACTERS), help_text="Identifier; by default the primary configuration."
    )
    token_id = serializers.IntegerField(min_value=1, help_text="By default a new token is created.")
    org = serializers.CharField(max_length=int(NAME_CHARACTERS))
    project = serializers.CharField(max_length=int(NAME_CHARACTERS))

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Return the fields, of which only the name is required."""
        fields = super().get_fields()
        fields["name"].required = True
        return fields


class DelegateLogDocument(serializers.Serializer[Any]):
    """Lines of an agent's log; `first` is the number of the first one."""

    instance = serializers.IntegerField(allow_null=True)
    first = serializers.IntegerField()
    next = serializers.IntegerField()
    lines = serializers.ListField(child=serializers.CharField(allow_blank=True))


class DelegateEventDocument(serializers.Serializer[Any]):
    """Event of a delegate."""

    at = serializers.DateTimeField()
    kind = serializers.ChoiceField(choices=DelegateEvent.Kind.choices)
    text = serializers.CharField()
    instance = serializers.IntegerField(source="instance_id", allow_null=True)
    address = serializers.CharField()


@dataclass(frozen=True)
class DocumentSource:
    """Source of a generated document."""

    delegate: Delegate
    facts: DelegateFacts
    instances: list[InstanceFacts]


def serialize_delegates(delegates: Iterable[Delegate], now: datetime) -> list[dict[str, Any]]:
    """Return the documents of delegates from `prefetch_instances`; one more query for all of them."""
    rows = list(delegates)
    running = count_running_tasks(instance.pk for delegate in rows for instance in delegate.instances.all())
    ends = list_last_ends(rows)
    sources = [
        DocumentSource(
            delegate,
            build_delegate_facts(delegate, running, now, ends.get(delegate.pk)),
            list_instance_facts(delegate, running, now),
        )
        for delegate in rows
    ]
    return [dict(document) for document in DelegateDocument(sources, many=True).data]


NAME = OpenApiParameter("name", OpenApiTypes.STR, description="Filter by name.")
TAG = OpenApiParameter("tag", OpenApiTypes.STR, description="Filter by selector.")
STATUS = OpenApiParameter(
    "status",
    OpenApiTypes.STR,
    enum=[status.value for status in Connectivity],
    description="Filter by status; by default all but archived ones.",
)
OUTDATED = OpenApiParameter(
    "outdated", OpenApiTypes.BOOL, description="Only delegates with a release that is no longer supported."
)
INSTANCE = OpenApiParameter("instance", OpenApiTypes.INT, description="Instance; by default the newest.")
AFTER = OpenApiParameter(
    "after", OpenApiTypes.INT, description="Number of the first line: `next` of the previous response."
)


NEW_DELEGATE_EXAMPLE = OpenApiExample(
    "Delegate on Fargate",
    {
        "name": "west",
        "org": "default",
        "project": "demo",
        "size": "small",
        "region": "eu-central-1",
        "aws_account_id": "123456789012",
        "cluster": "main",
        "subnets": ["subnet-0a1b2c3d4e5f60718", "subnet-0a1b2c3d4e5f60719"],
        "security_groups": ["sg-0a1b2c3d4e5f60718"],
    },
    request_only=True,
)


class Delegates(BaseApiView):
    """Delegates; POST creates one that has not connected."""

    order = "name"
    oldest_first = True

    @extend_schema(
        parameters=[ORG_PARAMETER, PROJECT_PARAMETER, NAME, TAG, STATUS, OUTDATED, *PAGE_PARAMETERS],
        responses=DelegateDocument(many=True),
    )
    def get(self, request: Request) -> Response:
        now = get_database_time()
        rows = filter_by_scope(
            request, filter_visible(self.principal, VIEW, Delegate.objects.all()), by_identifier=False
        )
        if name := request.GET.get("name"):
            rows = rows.filter(name=name)
        if tag := request.GET.get("tag"):
            rows = filter_by_tag(rows, tag, now)
        if self.is_flag_set("outdated"):
            rows = filter_outdated(rows, now)
        status = request.GET.get("status", "")
        rows = filter_by_status(rows, _validate_status(status) if status else "", now)
        pages = CursorPagination()
        page_rows = pages.paginate_queryset(_select_document_relations(rows), request, self)
        return pages.get_paginated_response(serialize_delegates(page_rows, now))

    @extend_schema(request=NewDelegate, responses={201: DelegateDocument}, examples=[NEW_DELEGATE_EXAMPLE])
    def post(self, request: Request) -> Response:
        body, scope = self.get_validated_body(NewDelegate), self.get_named_scope()
        tokens, token_id = DelegateToken.objects.select_related("scope"), body.get("token_id")
        made = create_delegate(
            actor=self.principal,
            scope=scope,
            name=body["name"],
            answers=change_answers(WizardAnswers(secret_kind="CREATE"), body),  # noqa: S106
            size=body.get("size", ""),
            tags=body.get("tags", ()),
            configuration=_find_configuration(self, scope, body.get("configuration")),
            token=self.get_visible(VIEW, tokens, pk=token_id) if token_id else None,
        )
        document = serialize_delegates([_get_delegate(self, made.pk)], get_database_time())[0]
        return Response(document, status=201, headers={"Location": f"/api/v1/delegates/{made.pk}"})


class DelegateDetail(BaseApiView):
    """Delegate."""

    @extend_schema(responses=DelegateDocument)
    def get(self, request: Request, pk: int) -> Response:
        return _build_response(_get_delegate(self, pk))

    @extend_schema(parameters=[IF_MATCH_PARAMETER], request=DelegateChange, responses=DelegateDocument)
    def patch(self, request: Request, pk: int) -> Response:
        body = self.get_validated_body(DelegateChange)
        with transaction.atomic():
            rows = Delegate.objects.select_related("scope", "configuration__scope")
            delegate = self.get_visible(VIEW, rows, lock=True, pk=pk)
            check_version(request, _get_version(delegate))
            operations.update_delegate(
                actor=self.principal,
                delegate=delegate,
                description=body.get("description"),
                tags=body.get("tags"),
                shares_scripts=body.get("shares_scripts"),
                configuration=_find_configuration(self, delegate.scope, body.get("configuration")),
            )
        return _build_response(_get_delegate(self, pk))

    @extend_schema(parameters=[FORCE_DELETE_PARAMETER, IF_MATCH_PARAMETER], responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        with transaction.atomic():
            delegate = self.get_visible(VIEW, Delegate.objects.select_related("scope"), lock=True, pk=pk)
            check_version(request, _get_version(delegate))
            operations.delete_delegate(
                actor=self.principal,
                delegate=delegate,
                although_used=self.is_flag_set("although_used"),
            )
        return Response(status=204)


class DelegateOwnTags(BaseApiView):
    """User tags of a delegate; tags reported by its agents stay."""

    @extend_schema(request=DelegateTags, responses=DelegateDocument)
    def put(self, request: Request, pk: int) -> Response:
        tags = self.get_validated_body(DelegateTags)["tags"]
        operations.update_delegate(actor=self.principal, delegate=_get_delegate(self, pk), tags=tags)
        return _build_response(_get_delegate(self, pk))

    @extend_schema(responses={200: DelegateDocument})
    def delete(self, request: Request, pk: int) -> Response:
        operations.update_delegate(actor=self.principal, delegate=_get_delegate(self, pk), tags=[])
        return _build_response(_get_delegate(self, pk))


class DecisionRoute(BaseApiView):
    """Base of the routes that approve, reject, disable or enable a delegate."""

    operation: Callable[..., Delegate]

    @extend_schema(request=None, responses=DelegateDocument)
    def post(self, request: Request, pk: int) -> Response:
        type(self).operation(actor=self.principal, delegate=_get_delegate(self, pk))
        return _build_response(_get_delegate(self, pk))


class DelegateApproval(DecisionRoute):
    """Approval of a waiting delegate."""

    operation = staticmethod(operations.approve_delegate)


class DelegateRejection(DecisionRoute):
    """Rejection of a waiting delegate."""

    operation = staticmethod(operations.reject_delegate)


class DelegateDisabling(DecisionRoute):
    """Disabling of a delegate; its running tasks finish."""

    operation = staticmethod(operations.disable_delegate)


class DelegateEnabling(DecisionRoute):
    """Enabling of a disabled or draining delegate."""

    operation = staticmethod(operations.enable_delegate)


class DelegateRestoring(DecisionRoute):
    """Restoring of an archived delegate; its next registration restores it too."""

    operation = staticmethod(operations.restore_delegate)


class DelegateDraining(DecisionRoute):
    """Drain request: running tasks finish, new tasks are refused."""

    operation = staticmethod(operations.drain_delegate)


class DelegateDelays(BaseApiView):
    """Reasons why tasks in the scope of a delegate wait."""

    pagination_class = None

    @extend_schema(responses=WorkDelaysDocument)
    def get(self, request: Request, pk: int) -> Response:
        delegate = _get_delegate(self, pk)
        return respond_with_delays(list_delegate_delays(self.principal, delegate, get_database_time()))


class DelegateLogs(BaseApiView):
    """Newest lines of an agent's log, or the lines after a known position."""

    @extend_schema(parameters=[INSTANCE, AFTER], responses=DelegateLogDocument)
    def get(self, request: Request, pk: int) -> Response:
        instances = _get_delegate(self, pk).instances.order_by("-registered_at", "-pk")
        if (instance_id := parse_number(request, "instance")) is not None:
            instances = instances.filter(pk=instance_id)
        return Response(
            DelegateLogDocument(read_agent_log(instances.first(), parse_number(request, "after"))).data
        )


class DelegateEvents(BaseApiView):
    """Events of a delegate, newest first."""

    order = "at"

    @extend_schema(parameters=PAGE_PARAMETERS, responses=DelegateEventDocument(many=True))
    def get(self, request: Request, pk: int) -> Response:
        events = DelegateEvent.objects.filter(delegate=_get_delegate(self, pk)).select_related(
            "instance__delegate"
        )
        return self.paginate(events, DelegateEventDocument)


def _get_delegate(route: BaseApiView, pk: int) -> Delegate:
    return route.get_visible(VIEW, _select_document_relations(Delegate.objects.all()), pk=pk)


def _select_document_relations(delegates: QuerySet[Delegate]) -> QuerySet[Delegate]:
    refused = RefusedInstance.objects.order_by("-last_seen_at", "pk")
    relations = prefetch_instances(delegates).select_related("configuration__scope", "created_by")
    return relations.prefetch_related(Prefetch("refused_instances", refused))


def _build_response(delegate: Delegate) -> Response:
    return respond_with_etag(serialize_delegates([delegate], get_database_time())[0], _get_version(delegate))


def _get_version(delegate: Delegate) -> str:
    return f"{delegate.updated_at.timestamp():.6f}"


def _validate_status(status: str) -> str:
    if status in list(Connectivity):
        return status
    message = f"is one of {', '.join(Connectivity)}"
    raise BadInput("The status of a delegate is not known.", errors=[{"path": "status", "message": message}])


def _find_configuration(
    route: BaseApiView, scope: Scope, identifier: str | None
) -> DelegateConfiguration | None:
    """Return the nearest configuration with that identifier at or above a scope. Raises `BadInput`."""
    if not identifier:
        return None
    near = DelegateConfiguration.objects.filter(scope__path__in=scope.ancestor_paths())
    visible = filter_visible(route.principal, "core_delegateconfiguration_view", near.select_related("scope"))
    configuration = visible.filter(identifier=identifier).order_by("-scope__path").first()
    if configuration is None:
        message = f"No configuration {identifier} in this scope or above."
        raise BadInput(message, errors=[{"path": "configuration", "message": message}])
    return configuration
