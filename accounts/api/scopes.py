"""API of organizations and projects."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from rbac import operations
from rbac.models import Scope
from rbac.policy import filter_visible, list_member_scopes
from rbac.queries import list_restorable_scopes
from web.api.parameters import IDENTIFIER_PARAMETER, ORG_PARAMETER, PAGE_PARAMETERS
from web.api.views import BaseApiView, build_scope_path

ARCHIVED_PARAMETER = OpenApiParameter(
    "archived", OpenApiTypes.BOOL, description="List archived scopes that you can restore instead."
)


class ScopeDocument(serializers.Serializer[Any]):
    """An organization or a project."""

    id = serializers.IntegerField()
    kind = serializers.ChoiceField(choices=Scope.Kind.choices)
    identifier = serializers.CharField()
    name = serializers.CharField()
    org = serializers.CharField()
    scope = serializers.CharField(source="path")
    created_at = serializers.DateTimeField()
    archived_at = serializers.DateTimeField(allow_null=True)


class ScopeInput(serializers.Serializer[Any]):
    """What an organization or a project is made of."""

    identifier = serializers.CharField(max_length=128)
    name = serializers.CharField(max_length=128)


class ProjectInput(ScopeInput):
    """What a project is made of, its organization too."""

    org = serializers.CharField(max_length=128)


class ScopeName(serializers.Serializer[Any]):
    """What can be changed of an organization or a project."""

    name = serializers.CharField(max_length=128)


class OrganizationListView(BaseApiView):
    """The organizations that one belongs to."""

    @extend_schema(
        parameters=[IDENTIFIER_PARAMETER, ARCHIVED_PARAMETER, *PAGE_PARAMETERS],
        responses=ScopeDocument(many=True),
    )
    def get(self, request: Request) -> Response:
        principal = self.principal
        found = (
            list_restorable_scopes(principal)
            if self.is_flag_set("archived")
            else list_member_scopes(principal)
        )
        return self.paginate(
            get_named_row(request, found.filter(kind=Scope.Kind.ORGANIZATION)), ScopeDocument
        )

    @extend_schema(request=ScopeInput, responses={201: ScopeDocument})
    def post(self, request: Request) -> Response:
        made = operations.create_organization(actor=self.principal, **self.get_validated_body(ScopeInput))
        return Response(ScopeDocument(made).data, status=201)


class BaseOrganizationView(BaseApiView):
    """The base of what can be asked of one organization."""

    def organization(self, org: str) -> Scope:
        """Return the organization, of which one must be a member."""
        return self.get_row(list_member_scopes(self.principal), path=build_scope_path(org, ""))


class OrganizationDetailView(BaseOrganizationView):
    """One organization, by its identifier."""

    @extend_schema(responses=ScopeDocument)
    def get(self, request: Request, org: str) -> Response:
        return Response(ScopeDocument(self.organization(org)).data)

    @extend_schema(request=ScopeName, responses=ScopeDocument)
    def patch(self, request: Request, org: str) -> Response:
        changed = operations.rename_scope(
            actor=self.principal, scope=self.organization(org), **self.get_validated_body(ScopeName)
        )
        return Response(ScopeDocument(changed).data)


class OrganizationArchiveView(BaseOrganizationView):
    """Putting an organization away, with all its projects."""

    @extend_schema(request=None, responses=ScopeDocument)
    def post(self, request: Request, org: str) -> Response:
        archived = operations.archive_scope(actor=self.principal, scope=self.organization(org))
        return Response(ScopeDocument(archived).data)


class OrganizationRestoreView(BaseApiView):
    """Bringing an archived organization back."""

    @extend_schema(request=None, responses=ScopeDocument)
    def post(self, request: Request, org: str) -> Response:
        found = self.get_row(list_restorable_scopes(self.principal), path=build_scope_path(org, ""))
        return Response(ScopeDocument(operations.restore_scope(actor=self.principal, scope=found)).data)


class BaseProjectListView(BaseApiView):
    """The base of what can be asked of many projects."""

    def shown(self) -> QuerySet[Scope]:
        """Return the projects that may be seen, or the archived ones that may be brought back."""
        if self.is_flag_set("archived"):
            found = list_restorable_scopes(self.principal)
        else:
            found = filter_visible(self.principal, "core_project_view", Scope.objects.all())
        return get_named_row(self.request, found.filter(kind=Scope.Kind.PROJECT))

    def made(self, org: str, given: dict[str, Any]) -> Response:
        """Add a project to the organization, of which one must be a member."""
        parent = self.get_row(list_member_scopes(self.principal), path=build_scope_path(org, ""))
        made = operations.create_project(actor=self.principal, organization=parent, **given)
        return Response(ScopeDocument(made).data, status=201)


class AllProjectsView(BaseProjectListView):
    """The projects that one may see, of all organizations or of one."""

    @extend_schema(
        parameters=[ORG_PARAMETER, IDENTIFIER_PARAMETER, ARCHIVED_PARAMETER, *PAGE_PARAMETERS],
        responses=ScopeDocument(many=True),
    )
    def get(self, request: Request) -> Response:
        found = self.shown()
        if org := request.GET.get("org"):
            found = found.filter(parent__path=build_scope_path(org, ""))
        return self.paginate(found, ScopeDocument)

    @extend_schema(request=ProjectInput, responses={201: ScopeDocument})
    def post(self, request: Request) -> Response:
        given = self.get_validated_body(ProjectInput)
        return self.made(given.pop("org"), given)


class ProjectListView(BaseProjectListView):
    """The projects of an organization that one may see."""

    @extend_schema(
        parameters=[IDENTIFIER_PARAMETER, ARCHIVED_PARAMETER, *PAGE_PARAMETERS],
        responses=ScopeDocument(many=True),
    )
    def get(self, request: Request, org: str) -> Response:
        return self.paginate(self.shown().filter(parent__path=build_scope_path(org, "")), ScopeDocument)

    @extend_schema(request=ScopeInput, responses={201: ScopeDocument})
    def post(self, request: Request, org: str) -> Response:
        return self.made(org, self.get_validated_body(ScopeInput))


class BaseProjectView(BaseApiView):
    """The base of what can be asked of one project."""

    def project(self, org: str, project: str) -> Scope:
        """Return the project, if it may be seen."""
        return self.get_visible("core_project_view", Scope.objects.all(), path=build_scope_path(org, project))


class ProjectDetailView(BaseProjectView):
    """One project, by its identifiers."""

    @extend_schema(responses=ScopeDocument)
    def get(self, request: Request, org: str, project: str) -> Response:
        return Response(ScopeDocument(self.project(org, project)).data)

    @extend_schema(request=ScopeName, responses=ScopeDocument)
    def patch(self, request: Request, org: str, project: str) -> Response:
        changed = operations.rename_scope(
            actor=self.principal, scope=self.project(org, project), **self.get_validated_body(ScopeName)
        )
        return Response(ScopeDocument(changed).data)


class ProjectArchiveView(BaseProjectView):
    """Putting a project away."""

    @extend_schema(request=None, responses=ScopeDocument)
    def post(self, request: Request, org: str, project: str) -> Response:
        archived = operations.archive_scope(actor=self.principal, scope=self.project(org, project))
        return Response(ScopeDocument(archived).data)


class ProjectRestoreView(BaseApiView):
    """Bringing an archived project back."""

    @extend_schema(request=None, responses=ScopeDocument)
    def post(self, request: Request, org: str, project: str) -> Response:
        found = self.get_row(list_restorable_scopes(self.principal), path=build_scope_path(org, project))
        return Response(ScopeDocument(operations.restore_scope(actor=self.principal, scope=found)).data)


def get_named_row(request: Request, scopes: QuerySet[Scope]) -> QuerySet[Scope]:
    """Narrow to the identifier that is asked for."""
    identifier = request.GET.get("identifier")
    return scopes.filter(identifier=identifier) if identifier else scopes
