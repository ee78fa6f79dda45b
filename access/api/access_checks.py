"""The route that says whether something is permitted."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from rbac.models import Scope
from rbac.permissions import PERMISSIONS
from rbac.policy import can
from web.problems import BadInput
from web.rest import Route, path_of

MOST_CHECKS = 100


class Check(serializers.Serializer[Any]):
    """One question: may I do this there?"""

    permission = serializers.ChoiceField(choices=sorted(PERMISSIONS))
    org = serializers.CharField(required=False, default="")
    project = serializers.CharField(required=False, default="")


class Checks(serializers.Serializer[Any]):
    """Several questions."""

    permissions = serializers.ListField(child=Check(), min_length=1, max_length=MOST_CHECKS)


class CheckResult(serializers.Serializer[Any]):
    """The answer to one question; for a scope that one does not see it is no."""

    permission = serializers.CharField()
    scope = serializers.CharField()
    permitted = serializers.BooleanField()


class CheckResults(serializers.Serializer[Any]):
    """The answers, in the order of the questions."""

    results = CheckResult(many=True)


class AccessCheck(Route):
    """Answers whether the principal has permissions; asks for itself only."""

    @extend_schema(request=Checks, responses=CheckResults)
    def post(self, request: Request) -> Response:
        checks = self.given(Checks)["permissions"]
        paths = [path_of(check["org"], check["project"]) for check in checks]
        if any(check["project"] and not check["org"] for check in checks):
            raise BadInput("A project needs its org.")
        scopes = {s.path: s for s in Scope.objects.filter(path__in=paths)}
        results = [
            {
                "permission": check["permission"],
                "scope": path,
                "permitted": path in scopes and can(self.principal, check["permission"], scopes[path]),
            }
            for check, path in zip(checks, paths, strict=True)
        ]
        return Response({"results": results})
