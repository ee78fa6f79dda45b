"""Route of a pipeline's preview."""

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
from policies.models import PolicyRule
from web.api.views import BaseApiView

VIEW = "core_pipeline_view"


class PlannedCallDocument(serializers.Serializer[Any]):
    """Write call that a run would send; environment values are redacted."""

    service = serializers.CharField()
    operation = serializers.CharField()
    params = serializers.DictField()


class PreviewFailureDocument(serializers.Serializer[Any]):
    """Failure that would stop a run; `action` is the missing IAM action, if any."""

    code = serializers.CharField()
    message = serializers.CharField()
    action = serializers.CharField()


class PreviewLineDocument(serializers.Serializer[Any]):
    """Line that the step would log."""

    level = serializers.CharField()
    text = serializers.CharField()


class PreviewedStepDocument(serializers.Serializer[Any]):
    """Preview of one step."""

    identifier = serializers.CharField()
    name = serializers.CharField()
    type = serializers.CharField()
    stage = serializers.CharField()
    calls = PlannedCallDocument(many=True)
    diff = serializers.CharField(help_text="Unified diff of the current and the new task definition.")
    permissions = serializers.ListField(child=serializers.CharField(), help_text="Required IAM actions.")
    changes = serializers.ListField(child=serializers.CharField())
    reads = serializers.ListField(child=serializers.CharField())
    log = PreviewLineDocument(many=True)
    warnings = serializers.ListField(child=serializers.CharField())
    failure = PreviewFailureDocument(allow_null=True)
    reached = serializers.BooleanField(help_text="False if an earlier step would fail.")
    skipped = serializers.CharField(help_text="Reason why the step would be skipped, or an empty text.")
    depends = serializers.ListField(
        child=serializers.CharField(), help_text="Conditions that only a run can evaluate."
    )


class PermissionDocument(serializers.Serializer[Any]):
    """IAM action with its purpose."""

    action = serializers.CharField()
    purpose = serializers.CharField()


class NeededPermissionDocument(PermissionDocument):
    """IAM action that a run needs, with the result of IAM's policy simulation on all resources."""

    policy = serializers.CharField(help_text="Title of the policy with this action.")
    allowed = serializers.ChoiceField(choices=["allowed", "denied", "unknown"])


class PolicyDocument(serializers.Serializer[Any]):
    """IAM policy for the principal of a connector; `document` is in the format of IAM."""

    identifier = serializers.CharField()
    title = serializers.CharField()
    about = serializers.CharField()
    document = serializers.DictField()
    permissions = PermissionDocument(many=True)


class PolicyList(serializers.Serializer[Any]):
    """IAM policies, the documented one first."""

    policies = PolicyDocument(many=True)


class PolicyViolationDocument(serializers.Serializer[Any]):
    """Policy rule that a run would violate; one with the effect REFUSE would refuse it."""

    rule = serializers.CharField(help_text="Identifier of the rule.")
    scope = serializers.CharField(help_text="Scope of the rule.")
    effect = serializers.ChoiceField(choices=PolicyRule.Effect.choices)
    message = serializers.CharField()


class PreviewDocument(serializers.Serializer[Any]):
    """Preview of a run."""

    artifact = serializers.DictField()
    complete = serializers.BooleanField(help_text="False if a step would fail.")
    steps = PreviewedStepDocument(many=True)
    permissions = NeededPermissionDocument(many=True)
    unasked = serializers.ListField(
        child=serializers.CharField(), help_text="Reason why IAM did not simulate some actions."
    )
    policies = serializers.ListField(
        child=serializers.CharField(), help_text="Policies; see `/iam-policies`."
    )
    policy_violations = PolicyViolationDocument(many=True)


class PreviewQuestionDocument(serializers.Serializer[Any]):
    """Preview that still waits for a delegate; repeat the request to poll."""

    id = serializers.UUIDField()
    requested_at = serializers.DateTimeField()
    reason = serializers.CharField(help_text="Reason for the wait.")


class PipelinePreview(BaseApiView):
    """Preview of a pipeline run, without side effects."""

    @extend_schema(request=RunInput, responses={200: PreviewDocument, 202: PreviewQuestionDocument})
    def post(self, request: Request, pk: int) -> Response:
        data = self.get_validated_body(RunInput)
        pipeline = self.get_visible(VIEW, Pipeline.objects.select_related("scope"), pk=pk)
        preview = preview_pipeline(
            actor=self.principal,
            pipeline=pipeline,
            artifact_tag=data["artifact"].get("tag", ""),
            inputs={**merge_input_sets(pipeline, self.principal, data["input_sets"]), **data["inputs"]},
            force_new_deployment=data["forceNewDeployment"],
        )
        if isinstance(preview, PreviewRequest):
            return Response(PreviewQuestionDocument(preview).data, status=202, headers={"Retry-After": "1"})
        return Response(preview.to_json())


class Policies(BaseApiView):
    """IAM policies of connectors: the documented one, and one for each additional feature."""

    @extend_schema(responses=PolicyList)
    def get(self, request: Request) -> Response:
        return Response({"policies": [_policy_document(policy) for policy in POLICIES]})


def _policy_document(policy: IamPolicy) -> dict[str, Any]:
    purposes = [{"action": action, "purpose": purpose} for action, purpose in policy.action_purposes.items()]
    return {
        "identifier": policy.identifier,
        "title": policy.title,
        "about": policy.description,
        "document": policy.document,
        "permissions": purposes,
    }
