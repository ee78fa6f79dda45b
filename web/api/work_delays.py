"""API of the reasons why work waits."""

from collections.abc import Sequence
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from web.api.views import BaseApiView
from web.clock import get_database_time
from web.work_delays import DelayCode, WorkDelay, list_installation_delays


class WorkDelayDocument(serializers.Serializer[Any]):
    """Reason why work waits: a code for programs, and a sentence for people."""

    code = serializers.ChoiceField(choices=[(code.value, code.value) for code in DelayCode])
    text = serializers.CharField()


class WorkDelaysDocument(serializers.Serializer[Any]):
    """Reasons why work waits; empty while nothing delays it."""

    delays = WorkDelayDocument(many=True)


def respond_with_delays(delays: Sequence[WorkDelay]) -> Response:
    """Return a response with reasons."""
    return Response(WorkDelaysDocument({"delays": delays}).data)


class WorkDelays(BaseApiView):
    """Reasons why all background work of this installation waits: the broker, workers, the dispatcher."""

    pagination_class = None

    @extend_schema(responses=WorkDelaysDocument)
    def get(self, request: Request) -> Response:
        """List why all background work waits; the answer may be two seconds old."""
        return respond_with_delays(list_installation_delays(get_database_time()))
