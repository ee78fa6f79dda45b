"""Routes of the expressions of an execution, with their values."""

import uuid

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from deployments.api.executions import ExecutionRoute
from deployments.run_expressions import Run
from pipelines.api.expressions import SEARCH_PARAMETER, STEP_PARAMETER, ExpressionDocument
from pipelines.completion.items import search_items
from web.api.parameters import PAGE_PARAMETERS


class KnownDocument(ExpressionDocument):
    """Name that an expression may use, with its current value."""

    value = serializers.JSONField(
        allow_null=True, help_text="Latest value with its type; **** for a secret, null if not KNOWN."
    )


class ExecutionExpressions(ExecutionRoute):
    """Names that expressions may use at a step of an execution, with their latest values."""

    @extend_schema(
        parameters=[STEP_PARAMETER, SEARCH_PARAMETER, *PAGE_PARAMETERS], responses=KnownDocument(many=True)
    )
    def get(self, request: Request, pk: uuid.UUID) -> Response:
        run = Run(self.execution(pk))
        found = run.known_at(run.moment(request.GET.get("at", "")), self.principal)
        names = search_items(found, request.GET.get("q", ""))
        return self.paginate_items(names, KnownDocument, key=lambda one: one.path)
