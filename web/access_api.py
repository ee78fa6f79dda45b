"""Routes about who one is, what one may do, and the tree of organizations and projects."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from rbac import operations
from rbac.models import Scope
from rbac.permissions import PERMISSIONS
from rbac.policy import can, permissions_at, scopes_of_member, visible_to
from web.problems import BadInput
from web.rest import IDENTIFIER, ORG, PAGED, PROJECT, Route, path_of

MOST_CHECKS = 100


class MeDocument(serializers.Serializer[Any]):
    """Who the key or the session belongs to."""

    id = serializers.IntegerField()
    username = serializers.CharField()
    email = serializers.CharField()
    name = serializers.CharField(source="get_full_name")


class ScopeDocument(serializers.Serializer[Any]):
    """An organization or a project."""

    id = serializers.IntegerField()
    kind = serializers.ChoiceField(choices=Scope.Kind.choices)
    identifier = serializers.CharField()
    name = serializers.CharField()
    scope = serializers.CharField(source="path")
    created_at = serializers.DateTimeField()


class ScopeInput(serializers.Serializer[Any]):
    """What an organization or a project is made of."""

    identifier = serializers.CharField(max_length=128)
    name = serializers.CharField(max_length=128)


class ScopeName(serializers.Serializer[Any]):
    """What can be changed of an organization or a project."""

    name = serializers.CharField(max_length=128)


class PermissionsDocument(serializers.Serializer[Any]):
    """What one may do in a scope."""

    scope = serializers.CharField()
    permissions = serializers.ListField(child=serializers.CharField())


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


class Me(Route):
    """The principal itself."""

    @extend_schema(responses=MeDocument)
    def get(self, request: Request) -> Response:
        return Response(MeDocument(self.principal).data)


class MyPermissions(Route):
    """What the principal may do in a scope: the account, or the one of ?org= and ?project=."""

    @extend_schema(parameters=[ORG, PROJECT], responses=PermissionsDocument)
    def get(self, request: Request) -> Response:
        scope = self.scope_named()
        granted = sorted(permissions_at(self.principal, scope))
        return Response({"scope": scope.path, "permissions": granted})


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


class Organizations(Route):
    """The organizations that one belongs to."""

    @extend_schema(parameters=[IDENTIFIER, *PAGED], responses=ScopeDocument(many=True))
    def get(self, request: Request) -> Response:
        found = scopes_of_member(self.principal).filter(kind=Scope.Kind.ORGANIZATION)
        if identifier := request.GET.get("identifier"):
            found = found.filter(identifier=identifier)
        return self.page(found, ScopeDocument)

    @extend_schema(request=ScopeInput, responses={201: ScopeDocument})
    def post(self, request: Request) -> Response:
        made = operations.create_organization(actor=self.principal, **self.given(ScopeInput))
        return Response(ScopeDocument(made).data, status=201)


class Organization(Route):
    """One organization, by its identifier."""

    @extend_schema(responses=ScopeDocument)
    def get(self, request: Request, org: str) -> Response:
        return Response(ScopeDocument(self.organization(org)).data)

    @extend_schema(request=ScopeName, responses=ScopeDocument)
    def patch(self, request: Request, org: str) -> Response:
        changed = operations.rename_scope(
            actor=self.principal, scope=self.organization(org), **self.given(ScopeName)
        )
        return Response(ScopeDocument(changed).data)

    def organization(self, org: str) -> Scope:
        """Return the organization, of which one must be a member."""
        return self.one_of(scopes_of_member(self.principal), path=path_of(org, ""))


class Projects(Route):
    """The projects of an organization that one may see."""

    @extend_schema(parameters=[IDENTIFIER, *PAGED], responses=ScopeDocument(many=True))
    def get(self, request: Request, org: str) -> Response:
        inside = Scope.objects.filter(kind=Scope.Kind.PROJECT, parent__path=path_of(org, ""))
        if identifier := request.GET.get("identifier"):
            inside = inside.filter(identifier=identifier)
        return self.page(visible_to(self.principal, "core_project_view", inside), ScopeDocument)

    @extend_schema(request=ScopeInput, responses={201: ScopeDocument})
    def post(self, request: Request, org: str) -> Response:
        parent = self.one_of(scopes_of_member(self.principal), path=path_of(org, ""))
        made = operations.create_project(actor=self.principal, organization=parent, **self.given(ScopeInput))
        return Response(ScopeDocument(made).data, status=201)


class Project(Route):
    """One project, by its identifiers."""

    @extend_schema(responses=ScopeDocument)
    def get(self, request: Request, org: str, project: str) -> Response:
        return Response(ScopeDocument(self.project(org, project)).data)

    @extend_schema(request=ScopeName, responses=ScopeDocument)
    def patch(self, request: Request, org: str, project: str) -> Response:
        changed = operations.rename_scope(
            actor=self.principal, scope=self.project(org, project), **self.given(ScopeName)
        )
        return Response(ScopeDocument(changed).data)

    def project(self, org: str, project: str) -> Scope:
        """Return the project, if it may be seen."""
        return self.one("core_project_view", Scope.objects.all(), path=path_of(org, project))
