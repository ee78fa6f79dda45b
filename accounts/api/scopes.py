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
    """Organization or project."""

    id = serializers.IntegerField()
    kind = serializers.ChoiceField(choices=Scope.Kind.choices)
    identifier = serializers.CharField()
    name = serializers.CharField()
    org = serializers.CharField()
    scope = serializers.CharField(source="path")
    created_at = serializers.DateTimeField()
    archived_at = serializers.DateTimeField(allow_null=True)


class ScopeInput(serializers.Serializer[Any]):
    """Fields of a new organization or project."""

    identifier = serializers.CharField(max_length=128)
    name = serializers.CharField(max_length=128)


class ProjectInput(ScopeInput):
    """Fields of a new project with its organization."""

    org = serializers.CharField(max_length=128)


class ScopeName(serializers.Serializer[Any]):
    """Writable fields of an organization or a project."""

    name = serializers.CharField(max_length=128)


class OrganizationListView(BaseApiView):
    """Organizations of the caller."""

    @extend_schema(
        parameters=[IDENTIFIER_PARAMETER, ARCHIVED_PARAMETER, *PAGE_PARAMETERS],
        responses=ScopeDocument(many=True),
    )
    def get(self, request: Request) -> Response:
        principal = self.principal
        visible_scopes = (
            list_restorable_scopes(principal)
            if self.is_flag_set("archived")
            else list_member_scopes(principal)
        )
        return self.paginate(
            get_named_row(request, visible_scopes.filter(kind=Scope.Kind.ORGANIZATION)), ScopeDocument
        )

    @extend_schema(request=ScopeInput, responses={201: ScopeDocument})
    def post(self, request: Request) -> Response:
        organization = operations.create_organization(
            actor=self.principal, **self.get_validated_body(ScopeInput)
        )
        return Response(ScopeDocument(organization).data, status=201)


class BaseOrganizationView(BaseApiView):
    """Base of the routes of one organization."""

    def organization(self, org: str) -> Scope:
        """Return the organization of the URL. The caller must be a member."""
        return self.get_row(list_member_scopes(self.principal), path=build_scope_path(org, ""))


class OrganizationDetailView(BaseOrganizationView):
    """Organization by its identifier."""

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
    """Archival of an organization with all its projects."""

    @extend_schema(request=None, responses=ScopeDocument)
    def post(self, request: Request, org: str) -> Response:
        archived = operations.archive_scope(actor=self.principal, scope=self.organization(org))
        return Response(ScopeDocument(archived).data)


class OrganizationRestoreView(BaseApiView):
    """Restoration of an archived organization."""

    @extend_schema(request=None, responses=ScopeDocument)
    def post(self, request: Request, org: str) -> Response:
        scope = self.get_row(list_restorable_scopes(self.principal), path=build_scope_path(org, ""))
        return Response(ScopeDocument(operations.restore_scope(actor=self.principal, scope=scope)).data)


class BaseProjectListView(BaseApiView):
    """Base of the project lists."""

    def list_projects(self) -> QuerySet[Scope]:
        """Return the visible projects, or the archived ones that the caller may restore."""
        if self.is_flag_set("archived"):
            visible_scopes = list_restorable_scopes(self.principal)
        else:
            visible_scopes = filter_visible(self.principal, "core_project_view", Scope.objects.all())
        return get_named_row(self.request, visible_scopes.filter(kind=Scope.Kind.PROJECT))

    def create_project(self, org: str, data: dict[str, Any]) -> Response:
        """Create a project in the organization. The caller must be a member."""
        organizations = list_member_scopes(self.principal).filter(kind=Scope.Kind.ORGANIZATION)
        parent = self.get_row(organizations, path=build_scope_path(org, ""))
        project = operations.create_project(actor=self.principal, organization=parent, **data)
        return Response(ScopeDocument(project).data, status=201)


class AllProjectsView(BaseProjectListView):
    """Visible projects of all organizations, or of one."""

    @extend_schema(
        parameters=[ORG_PARAMETER, IDENTIFIER_PARAMETER, ARCHIVED_PARAMETER, *PAGE_PARAMETERS],
        responses=ScopeDocument(many=True),
    )
    def get(self, request: Request) -> Response:
        projects = self.list_projects()
        if org := request.GET.get("org"):
            projects = projects.filter(parent__path=build_scope_path(org, ""))
        return self.paginate(projects, ScopeDocument)

    @extend_schema(request=ProjectInput, responses={201: ScopeDocument})
    def post(self, request: Request) -> Response:
        data = self.get_validated_body(ProjectInput)
        return self.create_project(data.pop("org"), data)


class ProjectListView(BaseProjectListView):
    """Visible projects of an organization."""

    @extend_schema(
        parameters=[IDENTIFIER_PARAMETER, ARCHIVED_PARAMETER, *PAGE_PARAMETERS],
        responses=ScopeDocument(many=True),
    )
    def get(self, request: Request, org: str) -> Response:
        return self.paginate(
            self.list_projects().filter(parent__path=build_scope_path(org, "")), ScopeDocument
        )

    @extend_schema(request=ScopeInput, responses={201: ScopeDocument})
    def post(self, request: Request, org: str) -> Response:
        return self.create_project(org, self.get_validated_body(ScopeInput))


class BaseProjectView(BaseApiView):
    """Base of the routes of one project."""

    def project(self, org: str, project: str) -> Scope:
        """Return the project of the URL if it is visible."""
        return self.get_visible("core_project_view", Scope.objects.all(), path=build_scope_path(org, project))


class ProjectDetailView(BaseProjectView):
    """Project by its identifiers."""

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
    """Archival of a project."""

    @extend_schema(request=None, responses=ScopeDocument)
    def post(self, request: Request, org: str, project: str) -> Response:
        archived = operations.archive_scope(actor=self.principal, scope=self.project(org, project))
        return Response(ScopeDocument(archived).data)


class ProjectRestoreView(BaseApiView):
    """Restoration of an archived project."""

    @extend_schema(request=None, responses=ScopeDocument)
    def post(self, request: Request, org: str, project: str) -> Response:
        scope = self.get_row(list_restorable_scopes(self.principal), path=build_scope_path(org, project))
        return Response(ScopeDocument(operations.restore_scope(actor=self.principal, scope=scope)).data)


def get_named_row(request: Request, scopes: QuerySet[Scope]) -> QuerySet[Scope]:
    """Filter rows by the `identifier` of the query."""
    identifier = request.GET.get("identifier")
    return scopes.filter(identifier=identifier) if identifier else scopes
