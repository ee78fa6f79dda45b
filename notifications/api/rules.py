"""API of notification rules and of notifications."""

from typing import Any

from django.db import transaction
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from guards.limits import (
    NAME_CHARACTERS,
    NOTIFICATION_DIGEST_MINUTES,
    NOTIFICATION_FILTER_NAMES,
    NOTIFICATION_SECRET_CHARACTERS,
    URL_CHARACTERS,
)
from notifications import operations
from notifications.events import OUTCOMES, SUBSCRIBABLE_EVENTS, EventType
from notifications.models import Notification, NotificationRule
from notifications.operations import VIEW, NotificationRuleSpec
from web.api.parameters import IF_MATCH_PARAMETER, LIST_PARAMETERS, PAGE_PARAMETERS
from web.api.views import BaseApiView, check_version, respond_with_etag


def _build_names_field() -> serializers.ListField:
    return serializers.ListField(
        child=serializers.CharField(max_length=int(NAME_CHARACTERS)),
        max_length=int(NOTIFICATION_FILTER_NAMES),
        required=False,
    )


class RuleFilters(serializers.Serializer[Any]):
    """Filters of a rule; an empty list matches everything."""

    services = _build_names_field()
    environments = _build_names_field()
    pipelines = _build_names_field()
    outcomes = serializers.ListField(
        child=serializers.ChoiceField(choices=OUTCOMES), max_length=len(OUTCOMES), required=False
    )


class RuleDocument(serializers.Serializer[Any]):
    """Notification rule; its address is truncated, and its secret is only shown as present or absent."""

    id = serializers.IntegerField()
    identifier = serializers.CharField()
    name = serializers.CharField()
    kind = serializers.ChoiceField(choices=NotificationRule.Kind.choices)
    scope = serializers.CharField(source="scope.path")
    org = serializers.CharField(source="scope.org")
    project = serializers.CharField(source="scope.project")
    events = serializers.ListField(child=serializers.ChoiceField(choices=SUBSCRIBABLE_EVENTS))
    host = serializers.CharField()
    options = serializers.DictField(child=serializers.CharField())
    filters = RuleFilters()
    digest_minutes = serializers.IntegerField()
    is_signed = serializers.BooleanField()
    is_enabled = serializers.BooleanField()
    version = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class RuleChange(serializers.Serializer[Any]):
    """Rule without its identifier; an update sends all fields, but may omit address and secret."""

    name = serializers.CharField(max_length=128)
    events = serializers.ListField(
        child=serializers.ChoiceField(choices=SUBSCRIBABLE_EVENTS),
        min_length=1,
        max_length=len(SUBSCRIBABLE_EVENTS),
    )
    url = serializers.CharField(max_length=int(URL_CHARACTERS), required=False, write_only=True)
    secret = serializers.CharField(
        max_length=int(NOTIFICATION_SECRET_CHARACTERS),
        required=False,
        allow_null=True,
        write_only=True,
        trim_whitespace=False,
        help_text="Signing secret of a webhook, or key of the service; null removes a signing secret.",
    )
    options = serializers.DictField(
        child=serializers.CharField(allow_blank=True, max_length=2_000),
        default=dict,
        help_text="Values of a channel: `recipients` of Email, `region` (us, eu) of PagerDuty and Opsgenie, "
        "`token_secret` or `connector` in place of a token, `repository`, `commit` and `deployments` (yes, "
        "no) of GitHub and GitLab, `branch` of GitLab.",
    )
    filters = RuleFilters(default=dict)
    digest_minutes = serializers.IntegerField(
        min_value=0,
        max_value=int(NOTIFICATION_DIGEST_MINUTES),
        default=0,
        help_text="At most one message in this time, with a summary; 0 sends each event.",
    )
    is_enabled = serializers.BooleanField(default=True)


class RuleInput(RuleChange):
    """Fields of a new notification rule."""

    identifier = serializers.CharField(max_length=128)
    kind = serializers.ChoiceField(
        choices=NotificationRule.Kind.choices, default=NotificationRule.Kind.WEBHOOK.value
    )
    org = serializers.CharField(required=False, write_only=True)
    project = serializers.CharField(required=False, write_only=True)


class NotificationRuleListView(BaseApiView):
    """Notification rules."""

    @extend_schema(parameters=LIST_PARAMETERS, responses=RuleDocument(many=True))
    def get(self, request: Request) -> Response:
        return self.list_visible(VIEW, _list_rules(), RuleDocument)

    @extend_schema(request=RuleInput, responses={201: RuleDocument})
    def post(self, request: Request) -> Response:
        body, scope = self.get_validated_body(RuleInput), self.get_named_scope()
        made = operations.create_rule(
            actor=self.principal,
            scope=scope,
            identifier=body["identifier"],
            kind=body["kind"],
            spec=_build_spec(body),
        )
        return respond_with_etag(RuleDocument(made).data, made.version, status=201)


class NotificationRuleDetailView(BaseApiView):
    """One notification rule."""

    def get_rule(self, pk: int, *, lock: bool = False) -> NotificationRule:
        """Return the rule in the URL."""
        return self.get_visible(VIEW, _list_rules(), lock=lock, pk=pk)

    @extend_schema(responses=RuleDocument)
    def get(self, request: Request, pk: int) -> Response:
        rule = self.get_rule(pk)
        return respond_with_etag(RuleDocument(rule).data, rule.version)

    @extend_schema(parameters=[IF_MATCH_PARAMETER], request=RuleChange, responses=RuleDocument)
    def put(self, request: Request, pk: int) -> Response:
        rule = self.get_rule(pk)
        check_version(request, rule.version)
        spec = _build_spec(self.get_validated_body(RuleChange))
        saved = operations.update_rule(actor=self.principal, rule=rule, spec=spec, version=rule.version)
        return respond_with_etag(RuleDocument(saved).data, saved.version)

    @extend_schema(parameters=[IF_MATCH_PARAMETER], responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        with transaction.atomic():
            rule = self.get_rule(pk, lock=True)
            check_version(request, rule.version)
            operations.delete_rule(actor=self.principal, rule=rule)
        return Response(status=204)


def _list_rules() -> Any:
    return NotificationRule.objects.select_related("scope")


def _build_spec(body: dict[str, Any]) -> NotificationRuleSpec:
    secret = body.get("secret")
    return NotificationRuleSpec(
        name=body["name"],
        events=tuple(body["events"]),
        url=body.get("url", ""),
        secret=secret or "",
        unsigned="secret" in body and secret is None,
        is_enabled=body["is_enabled"],
        options=body["options"],
        filters=body["filters"],
        digest_minutes=body["digest_minutes"],
    )


class NotificationDocument(serializers.Serializer[Any]):
    """Notification; its header carries `id`, which is the same for every attempt."""

    id = serializers.UUIDField()
    rule = serializers.IntegerField(source="rule_id")
    event = serializers.ChoiceField(choices=EventType.choices)
    text = serializers.CharField()
    status = serializers.ChoiceField(choices=Notification.Status.choices)
    attempts = serializers.IntegerField()
    answer_code = serializers.IntegerField(source="response_status", allow_null=True)
    reason = serializers.CharField()
    created_at = serializers.DateTimeField()
    next_attempt_at = serializers.SerializerMethodField()
    ended_at = serializers.DateTimeField(allow_null=True)

    @extend_schema_field(serializers.DateTimeField(allow_null=True))
    def get_next_attempt_at(self, row: Notification) -> Any:
        return row.due_at if row.status == Notification.Status.WAITING else None


class NotificationListView(BaseApiView):
    """Notifications of a rule, newest first; POST sends a test."""

    order = "created_at"

    @extend_schema(parameters=PAGE_PARAMETERS, responses=NotificationDocument(many=True))
    def get(self, request: Request, pk: int) -> Response:
        rule = self.get_visible(VIEW, NotificationRule.objects.select_related("scope"), pk=pk)
        return self.paginate(Notification.objects.filter(rule=rule).defer("body"), NotificationDocument)

    @extend_schema(request=None, responses={201: NotificationDocument})
    def post(self, request: Request, pk: int) -> Response:
        rule = self.get_visible(VIEW, NotificationRule.objects.select_related("scope"), pk=pk)
        made = operations.create_test_notification(actor=self.principal, rule=rule)
        return Response(NotificationDocument(made).data, status=201)


class NotificationResendView(BaseApiView):
    """Repeated delivery of a notification."""

    @extend_schema(request=None, responses=NotificationDocument)
    def post(self, request: Request, pk: str) -> Response:
        notification = self.get_visible(VIEW, Notification.objects.select_related("rule__scope"), pk=pk)
        sent = operations.resend_notification(actor=self.principal, notification=notification)
        return Response(NotificationDocument(sent).data)
