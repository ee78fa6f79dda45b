"""A deprecated operation says so in its answers and in the OpenAPI document."""

from datetime import date
from typing import Any

from django.urls import path
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.test import APIRequestFactory

from web.api.deprecation import POLICY_URL, deprecated
from web.api.views import BaseApiView


class NoteDocument(serializers.Serializer[Any]):
    """Note."""

    text = serializers.CharField()


class OldNotes(BaseApiView):
    """Notes, one old and one new way."""

    authentication_classes = ()
    permission_classes = ()
    throttle_classes = []

    @deprecated(since=date(2030, 1, 31), until=date(2030, 7, 31), replacement="POST /api/v1/notes")
    @extend_schema(responses=NoteDocument)
    def get(self, request: Request) -> Response:
        return Response({"text": "a"})

    @extend_schema(request=NoteDocument, responses=NoteDocument)
    def post(self, request: Request) -> Response:
        return Response({"text": "a"})


def test_answers_of_a_deprecated_operation_have_its_dates_and_the_policy() -> None:
    requests = APIRequestFactory()
    response = OldNotes.as_view()(requests.get("/api/v1/notes"))
    assert response["Deprecation"] == "@1896048000"
    assert response["Sunset"] == "Wed, 31 Jul 2030 00:00:00 GMT"
    assert POLICY_URL in response["Link"]
    assert "Deprecation" not in OldNotes.as_view()(requests.post("/api/v1/notes"))


def test_a_deprecated_operation_is_marked_in_the_document() -> None:
    patterns = [path("api/v1/notes", OldNotes.as_view())]
    operations = SchemaGenerator(patterns=patterns).get_schema(None, public=True)["paths"]["/api/v1/notes"]
    assert operations["get"]["deprecated"] is True
    assert "Use `POST /api/v1/notes`" in operations["get"]["description"]
    assert operations["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert "deprecated" not in operations["post"]
