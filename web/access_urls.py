"""Addresses of the REST API of scopes, roles, keys and the audit trail."""

from django.urls import path

from web import access_api, grants_api

urlpatterns = [
    path("me", access_api.Me.as_view(), name="api-me"),
    path("me/permissions", access_api.MyPermissions.as_view(), name="api-my-permissions"),
    path("access-check", access_api.AccessCheck.as_view(), name="api-access-check"),
    path("orgs", access_api.Organizations.as_view(), name="api-orgs"),
    path("orgs/<str:org>", access_api.Organization.as_view(), name="api-org"),
    path("orgs/<str:org>/projects", access_api.Projects.as_view(), name="api-projects"),
    path("orgs/<str:org>/projects/<str:project>", access_api.Project.as_view(), name="api-project"),
    path("roles", grants_api.Roles.as_view(), name="api-roles"),
    path("roles/<int:pk>", grants_api.OneRole.as_view(), name="api-role"),
    path("role-assignments", grants_api.RoleAssignments.as_view(), name="api-role-assignments"),
    path("role-assignments/<int:pk>", grants_api.OneRoleAssignment.as_view(), name="api-role-assignment"),
    path("api-keys", grants_api.ApiKeys.as_view(), name="api-keys"),
    path("api-keys/<int:pk>", grants_api.OneApiKey.as_view(), name="api-key"),
    path("audit", grants_api.Audit.as_view(), name="api-audit"),
]
