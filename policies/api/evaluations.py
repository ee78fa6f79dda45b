"""API of the test bench of policy conditions."""

import json
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from guards.limits import POLICY_CONDITION_CHARACTERS
from policies.bench import evaluate_on_documents, load_documents, parse_document, require_bench_access
from policies.models import PolicyRule
from web.api.views import BaseApiView
from web.http.problems import BadInput


class EvaluationInput(serializers.Serializer[Any]):
    """Condition, and what to evaluate it on: a stored `resource` or a `document`."""

    subject = serializers.ChoiceField(choices=PolicyRule.Subject.choices)
    condition = serializers.CharField(max_length=int(POLICY_CONDITION_CHARACTERS))
    resource = serializers.CharField(
        required=False,
        max_length=64,
        help_text="Id of a pipeline or an execution; for a manifest, those of a service and an environment: "
        "7/3.",
    )
    document = serializers.DictField(required=False, help_text="Document in place of a stored one.")


class EvaluatedValueDocument(serializers.Serializer[Any]):
    """Value that a condition names."""

    name = serializers.CharField()
    value = serializers.CharField(help_text="JSON, cut to 500 characters; empty if it is missing.")


class EvaluationResultDocument(serializers.Serializer[Any]):
    """Result on one document."""

    title = serializers.CharField()
    is_met = serializers.BooleanField()
    reason = serializers.CharField(help_text="Why there is no result, or an empty text.")
    values = EvaluatedValueDocument(many=True)
    milliseconds = serializers.FloatField()


class EvaluationDocument(serializers.Serializer[Any]):
    """Results of a condition."""

    results = EvaluationResultDocument(many=True)


class EvaluationView(BaseApiView):
    """Evaluation of a condition, saved or not, without any effect."""

    @extend_schema(request=EvaluationInput, responses=EvaluationDocument)
    def post(self, request: Request) -> Response:
        require_bench_access(self.principal)
        body = self.get_validated_body(EvaluationInput)
        if ("resource" in body) == ("document" in body):
            message = "Name a resource or send a document, and not both."
            raise BadInput(message, errors=[{"path": "resource", "message": message}])
        if "document" in body:
            documents = [parse_document(json.dumps(body["document"]))]
        else:
            documents = list(load_documents(self.principal, body["subject"], body["resource"]))
        results = evaluate_on_documents(body["condition"], documents)
        return Response(EvaluationDocument({"results": results}).data)
