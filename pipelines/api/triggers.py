"""REST routes of triggers."""

from typing import Any

from django.db import transaction
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from guards.limits import (
    CONDITION_CHARACTERS,
    EXPRESSION_CHARACTERS,
    NAME_CHARACTERS,
    TRIGGER_CONDITIONS,
)
from pipelines.models import Pipeline, Trigger, TriggerWatch
from pipelines.triggers import operations
from pipelines.triggers.receiving import build_address
from pipelines.triggers.trials import try_payload
from rbac.models import ServiceAccount
from rbac.policy import require
from web.api.parameters import IF_MATCH_PARAMETER, LIST_PARAMETERS, parse_number
from web.api.views import BaseApiView, check_version, respond_with_etag

PIPELINE_PARAMETER = OpenApiParameter(
    "pipeline", OpenApiTypes.INT, description="Only triggers of this pipeline."
)


class TriggerWatchDocument(serializers.Serializer[Any]):
    """Source that a trigger polls, such as an image repository."""

    kind = serializers.ChoiceField(choices=TriggerWatch.Kind.choices)
    subject = serializers.CharField()
    due_at = serializers.DateTimeField()
    looked_at = serializers.DateTimeField(allow_null=True)
    problem = serializers.CharField(help_text="Why the last poll failed; empty if it did not.")


class TriggerDocument(serializers.Serializer[Any]):
    """Trigger; its secret is never returned."""

    id = serializers.IntegerField()
    pipeline = serializers.IntegerField(source="pipeline_id")
    identifier = serializers.CharField()
    name = serializers.CharField()
    kind = serializers.CharField()
    spec = serializers.DictField()
    service_account = serializers.IntegerField(source="service_account_id", allow_null=True)
    tag = serializers.CharField()
    inputs = serializers.DictField()
    conditions = serializers.ListField(child=serializers.CharField())
    is_enabled = serializers.BooleanField()
    address = serializers.SerializerMethodField(
        help_text="URL for the sender; empty for kinds that receive no requests."
    )
    due_at = serializers.DateTimeField(allow_null=True, help_text="When it polls next.")
    watches = TriggerWatchDocument(many=True, help_text="Sources that it polls.")
    version = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()

    def get_address(self, trigger: Trigger) -> str:
        return build_address(trigger)


class CreatedTriggerDocument(TriggerDocument):
    """New trigger with its secret, which is shown once."""

    secret = serializers.SerializerMethodField()

    def get_secret(self, trigger: Trigger) -> str:
        return str(self.context["secret"])


class TriggerSecretDocument(serializers.Serializer[Any]):
    """New secret of a trigger, which is shown once."""

    secret = serializers.CharField()


class TriggerUpdateInput(serializers.Serializer[Any]):
    """Fields of a trigger. `tag` and `inputs` may have expressions such as `<+trigger.payload.tag>`."""

    name = serializers.CharField(max_length=int(NAME_CHARACTERS))
    spec = serializers.DictField(required=False, default=dict, help_text="Settings of its kind.")
    service_account = serializers.IntegerField(min_value=1, help_text="Runs have its permissions.")
    tag = serializers.CharField(
        required=False, allow_blank=True, default="", max_length=int(EXPRESSION_CHARACTERS)
    )
    inputs = serializers.DictField(required=False, default=dict)
    conditions = serializers.ListField(
        child=serializers.CharField(max_length=int(CONDITION_CHARACTERS)),
        required=False,
        default=list,
        max_length=int(TRIGGER_CONDITIONS),
        help_text="All of them must hold.",
    )
    is_enabled = serializers.BooleanField(required=False, default=True)


class TriggerInput(TriggerUpdateInput):
    """Fields of a new trigger of a pipeline."""

    pipeline = serializers.IntegerField(min_value=1)
    identifier = serializers.CharField(max_length=128)
    kind = serializers.CharField(max_length=32)


class TrialInput(serializers.Serializer[Any]):
    """Payload to try a trigger with."""

    payload = serializers.DictField()


class TriggerCheckDocument(serializers.Serializer[Any]):
    """Condition or setting, and why it does not hold; empty if it does."""

    text = serializers.CharField()
    reason = serializers.CharField()


class TrialDocument(serializers.Serializer[Any]):
    """What an event would lead to."""

    summary = serializers.CharField()
    starts_run = serializers.BooleanField()
    refusal = serializers.CharField(help_text="Why the run would be refused; empty if it would start.")
    checks = TriggerCheckDocument(many=True, source="decision.checks")
    values = serializers.DictField()
    tag = serializers.CharField(source="decision.tag")
    inputs = serializers.SerializerMethodField()

    @extend_schema_field(serializers.DictField())
    def get_inputs(self, trial: Any) -> dict[str, Any]:
        return dict(trial.decision.inputs)


class TrialsDocument(serializers.Serializer[Any]):
    """What each event of a payload would lead to; empty if the kind sees no event in it."""

    trials = TrialDocument(many=True)


class TriggerView(BaseApiView):
    """Base of the routes of one trigger."""

    def get_trigger(self, pk: int, *, lock: bool = False) -> Trigger:
        """Return the trigger in the URL. Raises `NotVisible` (404)."""
        return self.get_visible(operations.VIEW, operations.list_triggers(), lock=lock, pk=pk)

    def build_spec(self, pipeline: Pipeline, body: dict[str, Any]) -> operations.TriggerSpec:
        """Return the fields of a body; a service account that may not be used counts as none."""
        accounts = ServiceAccount.objects.filter(scope__path__in=pipeline.scope.ancestor_paths())
        return operations.TriggerSpec(
            name=body["name"],
            spec=body["spec"],
            service_account=accounts.select_related("scope", "user")
            .filter(pk=body["service_account"])
            .first(),
            tag=body["tag"],
            inputs=body["inputs"],
            conditions=body["conditions"],
            is_enabled=body["is_enabled"],
        )


class TriggerList(TriggerView):
    """List of triggers."""

    one_time_field = "secret"

    @extend_schema(parameters=[PIPELINE_PARAMETER, *LIST_PARAMETERS], responses=TriggerDocument(many=True))
    def get(self, request: Request) -> Response:
        rows = operations.list_triggers()
        if (pipeline_id := parse_number(request, "pipeline")) is not None:
            rows = rows.filter(pipeline_id=pipeline_id)
        return self.list_visible(operations.VIEW, rows, TriggerDocument)

    @extend_schema(request=TriggerInput, responses={201: CreatedTriggerDocument})
    def post(self, request: Request) -> Response:
        body = self.get_validated_body(TriggerInput)
        pipelines = Pipeline.objects.select_related("scope")
        pipeline = self.get_visible(operations.VIEW, pipelines, pk=body["pipeline"])
        trigger, secret = operations.create_trigger(
            actor=self.principal,
            pipeline=pipeline,
            identifier=body["identifier"],
            kind=body["kind"],
            spec=self.build_spec(pipeline, body),
        )
        document = CreatedTriggerDocument(trigger, context={"secret": secret})
        return respond_with_etag(document.data, trigger.version, status=201)


class TriggerDetail(TriggerView):
    """Trigger."""

    @extend_schema(responses=TriggerDocument)
    def get(self, request: Request, pk: int) -> Response:
        trigger = self.get_trigger(pk)
        return respond_with_etag(TriggerDocument(trigger).data, trigger.version)

    @extend_schema(parameters=[IF_MATCH_PARAMETER], request=TriggerUpdateInput, responses=TriggerDocument)
    def put(self, request: Request, pk: int) -> Response:
        body = self.get_validated_body(TriggerUpdateInput)
        with transaction.atomic():
            trigger = self.get_trigger(pk)
            check_version(request, trigger.version)
            changed = operations.update_trigger(
                actor=self.principal,
                trigger=trigger,
                spec=self.build_spec(trigger.pipeline, body),
                version=trigger.version,
            )
        return respond_with_etag(TriggerDocument(changed).data, changed.version)

    @extend_schema(parameters=[IF_MATCH_PARAMETER], responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        with transaction.atomic():
            trigger = self.get_trigger(pk, lock=True)
            check_version(request, trigger.version)
            operations.delete_trigger(actor=self.principal, trigger=trigger)
        return Response(status=204)


class TriggerSecretRotation(TriggerView):
    """New secret of a trigger; the old one stops working at once."""

    one_time_field = "secret"

    @extend_schema(request=None, responses={201: TriggerSecretDocument})
    def post(self, request: Request, pk: int) -> Response:
        secret = operations.rotate_secret(actor=self.principal, trigger=self.get_trigger(pk))
        return Response({"secret": secret}, status=201)


class TriggerTrial(TriggerView):
    """What a payload would lead to, without starting anything."""

    @extend_schema(request=TrialInput, responses=TrialsDocument)
    def post(self, request: Request, pk: int) -> Response:
        body = self.get_validated_body(TrialInput)
        trigger = self.get_trigger(pk)
        require(self.principal, operations.EXECUTE, trigger.pipeline)
        return Response(TrialsDocument({"trials": try_payload(trigger, body["payload"])}).data)
