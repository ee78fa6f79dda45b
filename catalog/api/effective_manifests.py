"""REST route of the effective manifests of a service, with the source of each value."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from catalog.api.overrides import OverrideRoute
from catalog.manifests.checks import ManifestProblem
from catalog.manifests.layers import MergedDocument
from catalog.models import Manifest
from catalog.overrides.effective_manifests import EffectiveManifest, list_effective_manifests
from catalog.overrides.remote_files import fetch_rows

FETCH_PARAMETER = OpenApiParameter(
    "fetch", bool, description="Fetch remote files from Git or S3 now; requires core_connector_access."
)


class ManifestProblemDocument(serializers.Serializer[Any]):
    """Problem in a manifest."""

    file = serializers.CharField()
    line = serializers.IntegerField(allow_null=True)
    column = serializers.IntegerField(allow_null=True)
    path = serializers.CharField()
    message = serializers.CharField()


class ManifestPartDocument(serializers.Serializer[Any]):
    """Value in a manifest with its path, level, file and line; `removed` is true for a removed value."""

    path = serializers.ListField(child=serializers.JSONField())
    level = serializers.CharField(help_text="service, environment or infrastructure")
    file = serializers.CharField()
    line = serializers.IntegerField(allow_null=True)
    removed = serializers.BooleanField()


class EffectiveManifestDocument(serializers.Serializer[Any]):
    """An effective manifest: its value, the source of each part, and its problems."""

    kind = serializers.ChoiceField(choices=Manifest.Kind.choices)
    identifiers = serializers.ListField(child=serializers.CharField())
    arn = serializers.CharField(help_text="Set if the task definition is already registered in AWS.")
    value = serializers.JSONField(allow_null=True)
    parts = ManifestPartDocument(many=True)
    problems = ManifestProblemDocument(many=True)
    warnings = ManifestProblemDocument(many=True)
    trouble = serializers.CharField(help_text="Reason why the manifests could not be merged, or null.")
    elsewhere = serializers.CharField(help_text="Location of remote files that were not fetched, or null.")
    waits = serializers.CharField(
        help_text="State of the delegate that fetches the files, or null. Repeat the request to poll."
    )


class EffectiveManifestsDocument(serializers.Serializer[Any]):
    """The effective manifests of a service in an environment or infrastructure."""

    manifests = EffectiveManifestDocument(many=True)


class EffectiveManifests(OverrideRoute):
    """The effective manifests of a service in an environment or infrastructure."""

    @extend_schema(parameters=[FETCH_PARAMETER], responses=EffectiveManifestsDocument)
    def get(self, request: Request, pk: int, service: int, infrastructure: int | None = None) -> Response:
        override_set = self.get_override_set(pk, service, infrastructure)
        fetch = fetch_rows if self.is_flag_set("fetch") else None
        return Response(
            {
                "manifests": [
                    _serialize_manifest(manifest)
                    for manifest in list_effective_manifests(override_set, self.principal, fetch=fetch)
                ]
            }
        )


def _serialize_manifest(manifest: EffectiveManifest) -> dict[str, Any]:
    return {
        "kind": manifest.kind,
        "identifiers": [row["identifier"] for row in manifest.rows],
        "arn": manifest.arn,
        "value": manifest.merged.document.value if manifest.merged else None,
        "parts": _serialize_parts(manifest.merged) if manifest.merged else [],
        "problems": [_serialize_problem(fault) for fault in manifest.problems],
        "warnings": [_serialize_problem(fault) for fault in manifest.warnings],
        "trouble": manifest.error,
        "elsewhere": manifest.unfetched_location,
        "waits": manifest.lookup_status,
    }


def _serialize_parts(merged: MergedDocument) -> list[dict[str, Any]]:
    return [
        {
            "path": list(path),
            "level": part.level,
            "file": part.file,
            "line": part.line,
            "removed": part.is_removed,
        }
        for path, part in merged.parts.items()
    ]


def _serialize_problem(fault: ManifestProblem) -> dict[str, Any]:
    return {
        "file": fault.file,
        "line": fault.line,
        "column": fault.column,
        "path": fault.path,
        "message": fault.message,
    }
