"""API of policy rules."""

from typing import Any

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from guards.limits import POLICY_CONDITION_CHARACTERS, POLICY_MESSAGE_CHARACTERS
from policies import operations
from policies.models import PolicyRule
from policies.operations import VIEW, PolicyRuleSpec
from web.api.parameters import IF_MATCH_PARAMETER, LIST_PARAMETERS
from web.api.views import BaseApiView, check_version, respond_with_etag


class PolicyRuleDocument(serializers.Serializer[Any]):
    """Policy rule; it applies to its scope and the scopes below."""

    id = serializers.IntegerField()
    identifier = serializers.CharField()
    name = serializers.CharField()
    scope = serializers.CharField(source="scope.path")
    org = serializers.CharField(source="scope.org")
    project = serializers.CharField(source="scope.project")
    subject = serializers.ChoiceField(choices=PolicyRule.Subject.choices)
    condition = serializers.CharField(help_text="CEL expression; the rule is met if it is true.")
    message = serializers.CharField()
    effect = serializers.ChoiceField(choices=PolicyRule.Effect.choices)
    is_enabled = serializers.BooleanField()
    version = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class PolicyRuleChange(serializers.Serializer[Any]):
    """All fields of a policy rule except its identifier."""

    name = serializers.CharField(max_length=128)
    subject = serializers.ChoiceField(choices=PolicyRule.Subject.choices)
    condition = serializers.CharField(
        max_length=int(POLICY_CONDITION_CHARACTERS),
        help_text="CEL expression over the document of the subject; the rule is met if it is true.",
    )
    message = serializers.CharField(
        max_length=int(POLICY_MESSAGE_CHARACTERS), help_text="What to do if the rule is not met."
    )
    effect = serializers.ChoiceField(choices=PolicyRule.Effect.choices, default=PolicyRule.Effect.WARN)
    is_enabled = serializers.BooleanField(default=True)


class PolicyRuleInput(PolicyRuleChange):
    """Fields of a new policy rule."""

    identifier = serializers.CharField(max_length=128)
    org = serializers.CharField(required=False, write_only=True)
    project = serializers.CharField(required=False, write_only=True)


class PolicyRuleListView(BaseApiView):
    """Policy rules."""

    @extend_schema(parameters=LIST_PARAMETERS, responses=PolicyRuleDocument(many=True))
    def get(self, request: Request) -> Response:
        return self.list_visible(VIEW, _list_rules(), PolicyRuleDocument)

    @extend_schema(request=PolicyRuleInput, responses={201: PolicyRuleDocument})
    def post(self, request: Request) -> Response:
        body, scope = self.get_validated_body(PolicyRuleInput), self.get_named_scope()
        made = operations.create_rule(
            actor=self.principal, scope=scope, identifier=body["identifier"], spec=_build_spec(body)
        )
        return respond_with_etag(PolicyRuleDocument(made).data, made.version, status=201)


class PolicyRuleDetailView(BaseApiView):
    """One policy rule."""

    def get_rule(self, pk: int, *, lock: bool = False) -> PolicyRule:
        """Return the rule in the URL."""
        return self.get_visible(VIEW, _list_rules(), lock=lock, pk=pk)

    @extend_schema(responses=PolicyRuleDocument)
    def get(self, request: Request, pk: int) -> Response:
        rule = self.get_rule(pk)
        return respond_with_etag(PolicyRuleDocument(rule).data, rule.version)

    @extend_schema(parameters=[IF_MATCH_PARAMETER], request=PolicyRuleChange, responses=PolicyRuleDocument)
    def put(self, request: Request, pk: int) -> Response:
        rule = self.get_rule(pk)
        check_version(request, rule.version)
        spec = _build_spec(self.get_validated_body(PolicyRuleChange))
        saved = operations.update_rule(actor=self.principal, rule=rule, spec=spec, version=rule.version)
        return respond_with_etag(PolicyRuleDocument(saved).data, saved.version)

    @extend_schema(parameters=[IF_MATCH_PARAMETER], responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        with transaction.atomic():
            rule = self.get_rule(pk, lock=True)
            check_version(request, rule.version)
            operations.delete_rule(actor=self.principal, rule=rule)
        return Response(status=204)


def _list_rules() -> Any:
    return PolicyRule.objects.select_related("scope")


def _build_spec(body: dict[str, Any]) -> PolicyRuleSpec:
    names = ("name", "subject", "condition", "message", "effect", "is_enabled")
    return PolicyRuleSpec(**{name: body[name] for name in names})
