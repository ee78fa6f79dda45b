"""URLs of the REST API of access control."""

from django.urls import path

from accounts.api import (
    access_checks,
    api_keys,
    audit,
    command_line,
    invitations,
    resource_groups,
    roles,
    scopes,
    service_accounts,
    users,
)

urlpatterns = [
    path("me", users.CurrentUserView.as_view(), name="api-me"),
    path("me/permissions", users.CurrentUserPermissionsView.as_view(), name="api-my-permissions"),
    path("access-check", access_checks.AccessCheckView.as_view(), name="api-access-check"),
    path("access-holders", access_checks.AccessHolderListView.as_view(), name="api-access-holders"),
    path("orgs", scopes.OrganizationListView.as_view(), name="api-orgs"),
    path("orgs/<str:org>", scopes.OrganizationDetailView.as_view(), name="api-org"),
    path("orgs/<str:org>/projects", scopes.ProjectListView.as_view(), name="api-projects"),
    path("orgs/<str:org>/projects/<str:project>", scopes.ProjectDetailView.as_view(), name="api-project"),
    path("orgs/<str:org>/archive", scopes.OrganizationArchiveView.as_view(), name="api-archive-org"),
    path("orgs/<str:org>/restore", scopes.OrganizationRestoreView.as_view(), name="api-restore-org"),
    path(
        "orgs/<str:org>/projects/<str:project>/archive",
        scopes.ProjectArchiveView.as_view(),
        name="api-archive-project",
    ),
    path(
        "orgs/<str:org>/projects/<str:project>/restore",
        scopes.ProjectRestoreView.as_view(),
        name="api-restore-project",
    ),
    path("projects", scopes.AllProjectsView.as_view(), name="api-all-projects"),
    path("roles", roles.RoleListView.as_view(), name="api-roles"),
    path("roles/<int:pk>", roles.RoleDetailView.as_view(), name="api-role"),
    path("role-assignments", roles.RoleAssignmentListView.as_view(), name="api-role-assignments"),
    path(
        "role-assignments/<int:pk>",
        roles.RoleAssignmentDetailView.as_view(),
        name="api-role-assignment",
    ),
    path("api-keys", api_keys.ApiKeyListView.as_view(), name="api-keys"),
    path("api-keys/<int:pk>", api_keys.ApiKeyDetailView.as_view(), name="api-key"),
    path("api-keys/<int:pk>/rotate", api_keys.ApiKeyRotationView.as_view(), name="api-key-rotation"),
    path(
        "command-line-sign-ins",
        command_line.CommandLineSignIns.as_view(),
        name="api-command-line-sign-ins",
    ),
    path("service-accounts", service_accounts.ServiceAccountListView.as_view(), name="api-service-accounts"),
    path(
        "service-accounts/<int:pk>",
        service_accounts.ServiceAccountDetailView.as_view(),
        name="api-service-account",
    ),
    path("resource-groups", resource_groups.ResourceGroupListView.as_view(), name="api-resource-groups"),
    path(
        "resource-groups/<int:pk>",
        resource_groups.ResourceGroupDetailView.as_view(),
        name="api-resource-group",
    ),
    path("users", users.UserListView.as_view(), name="api-users"),
    path("users/<int:pk>", users.UserDetailView.as_view(), name="api-user"),
    path("user-groups", users.UserGroupListView.as_view(), name="api-user-groups"),
    path("user-groups/<int:pk>", users.UserGroupDetailView.as_view(), name="api-user-group"),
    path("invitations", invitations.InvitationListView.as_view(), name="api-invitations"),
    path("invitations/<int:pk>", invitations.InvitationDetailView.as_view(), name="api-invitation"),
    path("invitations/<int:pk>/send", invitations.InvitationSendView.as_view(), name="api-send-invitation"),
    path("audit", audit.AuditEntryListView.as_view(), name="api-audit"),
    path("audit/export", audit.AuditExportView.as_view(), name="api-audit-export"),
    path("audit/<int:pk>", audit.AuditEntryDetailView.as_view(), name="api-audit-entry"),
]
