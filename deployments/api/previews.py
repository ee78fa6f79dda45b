"""The route that says what a run of a pipeline would do."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from aws.policies import POLICIES, IamPolicy
from deployments.api.runs import RunInput
from deployments.models import PreviewRequest
from deployments.preview.operations import preview_pipeline
from pipelines.inputs.input_sets import merge_input_sets
from pipelines.models import Pipeline
from web.api.views import BaseApiView

VIEW = "core_pipeline_view"


class PlannedCallDocument(serializers.Serializer[Any]):
    """A write that a run would send; the values of environments are hidden."""

    service = serializers.CharField()
    operation = serializers.CharField()
    params = serializers.DictField()


class PreviewFailureDocument(serializers.Serializer[Any]):
    """Why a run would come no further; `action` is the IAM action that is missing, if that is why."""

    code = serializers.CharField()
    message = serializers.CharField()
    action = serializers.CharField()


class PreviewLineDocument(serializers.Serializer[Any]):
    """A line that the step would log."""

    level = serializers.CharField()
    text = serializers.CharField()


class PreviewedStepDocument(serializers.Serializer[Any]):
    """What one step would do."""

    identifier = serializers.CharField()
    name = serializers.CharField()
    type = serializers.CharField()
    stage = serializers.CharField()
    calls = PlannedCallDocument(many=True)
    diff = serializers.CharField(help_text="The task definition that runs and the new one, unified.")
    permissions = serializers.ListField(child=serializers.CharField(), help_text="IAM actions.")
    changes = serializers.ListField(child=serializers.CharField())
    reads = serializers.ListField(child=serializers.CharField())
    log = PreviewLineDocument(many=True)
    warnings = serializers.ListField(child=serializers.CharField())
    failure = PreviewFailureDocument(allow_null=True)
    reached = serializers.BooleanField(help_text="False where a step before it would fail.")
    skipped = serializers.CharField(help_text="Why it would not run; empty where it would.")
    depends = serializers.ListField(
        child=serializers.CharField(), help_text="Conditions of it that only a run can answer."
    )


class PermissionDocument(serializers.Serializer[Any]):
    """An IAM action, and what it is needed for."""

    action = serializers.CharField()
    purpose = serializers.CharField()


class NeededPermissionDocument(PermissionDocument):
    """An IAM action that a run needs, and what IAM says of it on all resources."""

    policy = serializers.CharField(help_text="The title of the policy that holds it.")
    allowed = serializers.ChoiceField(choices=["allowed", "denied", "unknown"])


class PolicyDocument(serializers.Serializer[Any]):
    """An IAM policy for the principal of a connector; `document` is what IAM takes."""

    identifier = serializers.CharField()
    title = serializers.CharField()
    about = serializers.CharField()
    document = serializers.DictField()
    permissions = PermissionDocument(many=True)


class PolicyList(serializers.Serializer[Any]):
    """All policies, the documented one first."""

    policies = PolicyDocument(many=True)


class PreviewDocument(serializers.Serializer[Any]):
    """What a run would do."""

    artifact = serializers.DictField()
    complete = serializers.BooleanField(help_text="False where a step would fail before its end.")
    steps = PreviewedStepDocument(many=True)
    permissions = NeededPermissionDocument(many=True)
    unasked = serializers.ListField(child=serializers.CharField(), help_text="Why IAM says nothing of some.")
    policies = serializers.ListField(child=serializers.CharField(), help_text="See `/iam-policies`.")


class PreviewQuestionDocument(serializers.Serializer[Any]):
    """A preview that a delegate still reads for; post the same again to see what became of it."""

    id = serializers.UUIDField()
    asked_at = serializers.DateTimeField(source="requested_at")
    reason = serializers.CharField(help_text="What it waits for.")


class PipelinePreview(BaseApiView):
    """What a run of a pipeline would do, without doing it."""

    @extend_schema(request=RunInput, responses={200: PreviewDocument, 202: PreviewQuestionDocument})
    def post(self, request: Request, pk: int) -> Response:
        given = self.get_validated_body(RunInput)
        pipeline = self.get_visible(VIEW, Pipeline.objects.select_related("scope"), pk=pk)
        found = preview_pipeline(
            actor=self.principal,
            pipeline=pipeline,
            artifact_tag=given["artifact"].get("tag", ""),
            inputs={**merge_input_sets(pipeline, self.principal, given["input_sets"]), **given["inputs"]},
        )
        if isinstance(found, PreviewRequest):
            return Response(PreviewQuestionDocument(found).data, status=202, headers={"Retry-After": "1"})
        return Response(found.to_json())


class Policies(BaseApiView):
    """The IAM policies that connectors need: the documented one, and one for each feature beyond it."""

    @extend_schema(responses=PolicyList)
    def get(self, request: Request) -> Response:
        return Response({"policies": [_policy_document(one) for one in POLICIES]})


def _policy_document(policy: IamPolicy) -> dict[str, Any]:
    purposes = [{"action": action, "purpose": purpose} for action, purpose in policy.action_purposes.items()]
    return {
        "identifier": policy.identifier,
        "title": policy.title,
        "about": policy.description,
        "document": policy.document,
        "permissions": purposes,
    }
