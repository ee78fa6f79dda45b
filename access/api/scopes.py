"""Routes about the tree of organizations and projects."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from rbac import operations
from rbac.models import Scope
from rbac.policy import scopes_of_member, visible_to
from web.rest import IDENTIFIER, PAGED, Route, path_of


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
