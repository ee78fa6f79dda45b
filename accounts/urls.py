"""URLs of the pages of scopes, people, keys and the audit trail."""

from django.urls import path

from accounts.pages import (
    access_checks,
    api_keys,
    audit,
    command_line,
    invitations,
    people,
    resource_groups,
    role_assignments,
    roles,
    scopes,
    service_accounts,
    user_groups,
)

urlpatterns = [
    path("access/people/", people.show_people, name="people"),
    path("access/people/<int:pk>/", people.show_person, name="person"),
    path("access/people/<int:pk>/disable/", people.DisableUser.as_view(), name="disable-user"),
    path("access/people/<int:pk>/enable/", people.EnableUser.as_view(), name="enable-user"),
    path(
        "access/people/<int:pk>/second-factor/reset/",
        people.ResetSecondFactor.as_view(),
        name="reset-second-factor",
    ),
    path(
        "access/people/<int:pk>/roles/new/",
        role_assignments.AssignRoleToPerson.as_view(),
        name="assign-role-to-person",
    ),
    path(
        "access/role-assignments/<int:pk>/remove/",
        role_assignments.RemoveRoleAssignment.as_view(),
        name="remove-role-assignment",
    ),
    path("access/groups/", user_groups.show_user_groups, name="user-groups"),
    path("access/groups/new/", user_groups.NewUserGroup.as_view(), name="new-user-group"),
    path("access/groups/<int:pk>/", user_groups.show_user_group, name="user-group"),
    path("access/groups/<int:pk>/edit/", user_groups.EditUserGroup.as_view(), name="edit-user-group"),
    path("access/groups/<int:pk>/delete/", user_groups.DeleteUserGroup.as_view(), name="delete-user-group"),
    path(
        "access/groups/<int:pk>/members/new/",
        user_groups.AddGroupMembers.as_view(),
        name="add-group-members",
    ),
    path(
        "access/groups/<int:pk>/members/<int:user>/remove/",
        user_groups.RemoveGroupMember.as_view(),
        name="remove-group-member",
    ),
    path(
        "access/groups/<int:pk>/roles/new/",
        role_assignments.AssignRoleToGroup.as_view(),
        name="assign-role-to-group",
    ),
    path("access/roles/", roles.show_roles, name="roles"),
    path("access/roles/new/", roles.NewRole.as_view(), name="new-role"),
    path("access/roles/<int:pk>/", roles.show_role, name="role"),
    path("access/roles/<int:pk>/edit/", roles.EditRole.as_view(), name="edit-role"),
    path("access/roles/<int:pk>/delete/", roles.DeleteRole.as_view(), name="delete-role"),
    path("access/resource-groups/", resource_groups.show_resource_groups, name="resource-groups"),
    path(
        "access/resource-groups/new/", resource_groups.NewResourceGroup.as_view(), name="new-resource-group"
    ),
    path("access/resource-groups/<int:pk>/", resource_groups.show_resource_group, name="resource-group"),
    path(
        "access/resource-groups/<int:pk>/edit/",
        resource_groups.EditResourceGroup.as_view(),
        name="edit-resource-group",
    ),
    path(
        "access/resource-groups/<int:pk>/delete/",
        resource_groups.DeleteResourceGroup.as_view(),
        name="delete-resource-group",
    ),
    path(
        "access/resource-groups/<int:pk>/resources/new/",
        resource_groups.AddGroupResources.as_view(),
        name="add-group-resources",
    ),
    path(
        "access/resource-groups/<int:pk>/resources/<int:entry>/remove/",
        resource_groups.RemoveGroupResource.as_view(),
        name="remove-group-resource",
    ),
    path("access/scopes/", scopes.scopes, name="access-scopes"),
    path("access/scopes/choices/", scopes.scope_choices, name="scope-choices"),
    path("access/scopes/archived/", scopes.archived_scopes, name="archived-scopes"),
    path("access/scopes/new/", scopes.NewOrganization.as_view(), name="new-organization"),
    path("access/scopes/<int:pk>/", scopes.scope, name="access-scope"),
    path("access/scopes/<int:pk>/new/", scopes.NewProject.as_view(), name="new-project"),
    path("access/scopes/<int:pk>/rename/", scopes.RenameScope.as_view(), name="rename-scope"),
    path("access/scopes/<int:pk>/archive/", scopes.ArchiveScope.as_view(), name="archive-scope"),
    path("access/scopes/<int:pk>/restore/", scopes.restore_scope, name="restore-scope"),
    path("access/service-accounts/", service_accounts.service_accounts, name="service-accounts"),
    path(
        "access/service-accounts/new/",
        service_accounts.NewServiceAccount.as_view(),
        name="new-service-account",
    ),
    path("access/service-accounts/<int:pk>/", service_accounts.service_account, name="service-account"),
    path(
        "access/service-accounts/<int:pk>/edit/",
        service_accounts.EditServiceAccount.as_view(),
        name="edit-service-account",
    ),
    path(
        "access/service-accounts/<int:pk>/delete/",
        service_accounts.DeleteServiceAccount.as_view(),
        name="delete-service-account",
    ),
    path(
        "access/service-accounts/<int:pk>/roles/new/",
        role_assignments.AssignRoleToServiceAccount.as_view(),
        name="assign-role-to-service-account",
    ),
    path(
        "access/service-accounts/<int:pk>/keys/new/",
        api_keys.NewServiceAccountKey.as_view(),
        name="new-service-account-key",
    ),
    path("access/keys/", api_keys.list_own_api_keys, name="my-api-keys"),
    path("access/keys/new/", api_keys.NewApiKey.as_view(), name="new-api-key"),
    path("access/keys/command-line/", command_line.CommandLineSignIn.as_view(), name="command-line-sign-in"),
    path("access/keys/<int:pk>/rotate/", api_keys.RotateApiKey.as_view(), name="rotate-api-key"),
    path("access/keys/<int:pk>/revoke/", api_keys.RevokeApiKey.as_view(), name="revoke-api-key"),
    path("access/invitations/", invitations.invitations, name="invitations"),
    path("access/invitations/new/", invitations.NewInvitation.as_view(), name="new-invitation"),
    path(
        "access/invitations/<int:pk>/send/", invitations.send_invitation_again, name="send-invitation-again"
    ),
    path(
        "access/invitations/<int:pk>/revoke/",
        invitations.RevokeInvitation.as_view(),
        name="revoke-invitation",
    ),
    path("join/", invitations.accept_invitation_page, name="join"),
    path("join/<str:token>/", invitations.open_invitation_link, name="join-by-link"),
    path("access/who/", access_checks.list_who_can, name="who-can"),
    path("access/effective/", access_checks.effective_access, name="effective-access"),
    path("access/audit/", audit.audit_trail, name="audit-trail"),
    path("access/audit/export/", audit.export_audit_trail, name="export-audit-trail"),
    path("access/audit/<int:pk>/", audit.audit_entry, name="audit-entry"),
]
