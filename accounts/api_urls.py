"""Addresses of the REST API of scopes, roles, keys and the audit trail."""

from django.urls import path

from accounts.api import (
    access_checks,
    assignments,
    audit,
    invitations,
    keys,
    me,
    people,
    resource_groups,
    roles,
    scopes,
    service_accounts,
)

urlpatterns = [
    path("me", me.Me.as_view(), name="api-me"),
    path("me/permissions", me.MyPermissions.as_view(), name="api-my-permissions"),
    path("access-check", access_checks.AccessCheck.as_view(), name="api-access-check"),
    path("orgs", scopes.Organizations.as_view(), name="api-orgs"),
    path("orgs/<str:org>", scopes.Organization.as_view(), name="api-org"),
    path("orgs/<str:org>/projects", scopes.Projects.as_view(), name="api-projects"),
    path("orgs/<str:org>/projects/<str:project>", scopes.Project.as_view(), name="api-project"),
    path("orgs/<str:org>/archive", scopes.ArchiveOrganization.as_view(), name="api-archive-org"),
    path("orgs/<str:org>/restore", scopes.RestoreOrganization.as_view(), name="api-restore-org"),
    path(
        "orgs/<str:org>/projects/<str:project>/archive",
        scopes.ArchiveProject.as_view(),
        name="api-archive-project",
    ),
    path(
        "orgs/<str:org>/projects/<str:project>/restore",
        scopes.RestoreProject.as_view(),
        name="api-restore-project",
    ),
    path("projects", scopes.AllProjects.as_view(), name="api-all-projects"),
    path("roles", roles.Roles.as_view(), name="api-roles"),
    path("roles/<int:pk>", roles.OneRole.as_view(), name="api-role"),
    path("role-assignments", assignments.RoleAssignments.as_view(), name="api-role-assignments"),
    path("role-assignments/<int:pk>", assignments.OneRoleAssignment.as_view(), name="api-role-assignment"),
    path("api-keys", keys.ApiKeys.as_view(), name="api-keys"),
    path("api-keys/<int:pk>", keys.OneApiKey.as_view(), name="api-key"),
    path("api-keys/<int:pk>/rotate", keys.ApiKeyRotation.as_view(), name="api-key-rotation"),
    path("service-accounts", service_accounts.ServiceAccounts.as_view(), name="api-service-accounts"),
    path(
        "service-accounts/<int:pk>", service_accounts.OneServiceAccount.as_view(), name="api-service-account"
    ),
    path("resource-groups", resource_groups.ResourceGroups.as_view(), name="api-resource-groups"),
    path("resource-groups/<int:pk>", resource_groups.OneResourceGroup.as_view(), name="api-resource-group"),
    path("users", people.Users.as_view(), name="api-users"),
    path("users/<int:pk>", people.OneUser.as_view(), name="api-user"),
    path("user-groups", people.UserGroups.as_view(), name="api-user-groups"),
    path("user-groups/<int:pk>", people.OneUserGroup.as_view(), name="api-user-group"),
    path("invitations", invitations.Invitations.as_view(), name="api-invitations"),
    path("invitations/<int:pk>", invitations.OneInvitation.as_view(), name="api-invitation"),
    path("invitations/<int:pk>/send", invitations.InvitationSending.as_view(), name="api-send-invitation"),
    path("audit", audit.Audit.as_view(), name="api-audit"),
    path("audit/export", audit.AuditExport.as_view(), name="api-audit-export"),
    path("audit/<int:pk>", audit.OneAuditEntry.as_view(), name="api-audit-entry"),
]
