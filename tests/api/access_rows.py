"""Every named route about people, roles, keys and the audit trail."""

from tests.api.extra_objects import audit_entry, invitation_body
from tests.api.requests import (
    IN_SCOPE,
    Ask,
    Row,
    add_scope,
    allow_get,
    assignment_body,
    get,
    list_granted_permissions,
    resource_group_body,
    service_account_body,
    use_key_of,
)
from tests.api.required_access import (
    ACCOUNT,
    HERE,
    ORGANIZATION,
    Belongs,
    Lists,
    Needs,
    Open,
    Owner,
    SignedIn,
)

ACCESS: dict[str, Row] = {
    "api-me": allow_get(SignedIn()),
    "api-my-permissions": Row((get(Belongs(), IN_SCOPE),)),
    "api-access-holders": Row((get(Belongs(), f"?action=deploy&scope={HERE}"),)),
    "api-access-check": Row(
        (
            get(Belongs(), f"?action=deploy&scope={HERE}"),
            Ask(
                "post",
                SignedIn(),
                body=lambda world: {
                    "permission": "core_pipeline_view",
                    "resource": {"type": "pipeline", "id": str(world.pipeline.pk)},
                },
            ),
            Ask(
                "post",
                Needs("core_user_view", seen_by="core_delegate_view"),
                body=lambda world: {
                    "principal": {"type": "service_account", "id": world.service_account.pk},
                    "permission": "core_pipeline_view",
                    "resource": {"scope": world.scope.path},
                },
            ),
        )
    ),
    # Access.
    "api-orgs": Row(
        (
            get(SignedIn()),
            Ask(
                "post",
                Needs("core_organization_edit", 201, at=ACCOUNT),
                body=lambda world: {"identifier": "x", "name": "X"},
            ),
        )
    ),
    "api-org": Row(
        (
            get(Belongs(at=ORGANIZATION)),
            Ask("patch", Needs("core_organization_edit", at=ORGANIZATION), body=lambda world: {"name": "X"}),
        ),
        lambda world: {"org": "default"},
    ),
    "api-projects": Row(
        (
            get(Lists("core_project_view", sign='"demo"')),
            Ask(
                "post",
                Needs("core_project_edit", 201, at=ORGANIZATION),
                body=lambda world: {"identifier": "x", "name": "X"},
            ),
        ),
        lambda world: {"org": "default"},
    ),
    "api-project": Row(
        (
            get(Needs("core_project_view")),
            Ask("patch", Needs("core_project_edit"), body=lambda world: {"name": "X"}),
        ),
        lambda world: {"org": "default", "project": "demo"},
    ),
    "api-all-projects": Row(
        (
            get(Lists("core_project_view", sign='"demo"')),
            Ask(
                "post",
                Needs("core_project_edit", 201, at=ORGANIZATION),
                body=lambda world: {"identifier": "x", "name": "X", "org": "default"},
            ),
        )
    ),
    # An execution is under way there.
    "api-archive-org": Row(
        (Ask("post", Needs("core_organization_delete", 409, at=ORGANIZATION)),),
        lambda world: {"org": "default"},
    ),
    "api-archive-project": Row(
        (Ask("post", Needs("core_project_delete", 409)),),
        lambda world: {"org": "default", "project": "demo"},
    ),
    "api-restore-org": Row((Ask("post", SignedIn(404)),), lambda world: {"org": "default"}),
    "api-restore-project": Row(
        (Ask("post", SignedIn(404)),), lambda world: {"org": "default", "project": "demo"}
    ),
    "api-roles": Row(
        (
            get(Lists("core_role_view")),
            Ask(
                "post", Needs("core_role_edit", 201), body=add_scope(identifier="x", name="X", permissions=[])
            ),
        )
    ),
    "api-role": Row(
        (
            get(Needs("core_role_view")),
            Ask(
                "put",
                Needs("core_role_edit", 200),
                body=lambda world: {"name": "X", "permissions": ["core_pipeline_view"]},
            ),
            Ask("delete", Needs("core_role_delete", 409)),
        ),
        use_key_of("role"),
    ),
    "api-role-assignments": Row(
        (
            get(Lists("core_user_view", sign='"own"')),
            Ask(
                "post",
                Needs("core_user_manage", 201, also=list_granted_permissions("viewer")),
                body=assignment_body,
            ),
        )
    ),
    "api-role-assignment": Row(
        (get(Needs("core_user_view")), Ask("delete", Needs("core_user_manage", 204))),
        use_key_of("assignment"),
    ),
    "api-command-line-sign-ins": Row(
        (
            Ask(
                "post",
                Open(400, anonymous=400),
                body=lambda world: {"code": "forged", "verifier": "v" * 43},
            ),
        )
    ),
    "api-keys": Row((get(SignedIn()), Ask("post", SignedIn(201), body=lambda world: {"name": "x"}))),
    "api-key": Row((get(Owner()), Ask("delete", Owner(204))), use_key_of("key")),
    "api-key-rotation": Row((Ask("post", Owner()),), use_key_of("key")),
    "api-resource-groups": Row(
        (
            get(Lists("core_resourcegroup_view")),
            Ask("post", Needs("core_resourcegroup_edit", 201), body=resource_group_body),
        )
    ),
    "api-resource-group": Row(
        (
            get(Needs("core_resourcegroup_view")),
            Ask(
                "patch",
                Needs("core_resourcegroup_edit"),
                body=lambda world: {"name": "X", "entries": []},
            ),
            Ask("delete", Needs("core_resourcegroup_delete", 204)),
        ),
        use_key_of("resource_group"),
    ),
    "api-users": Row(
        (get(Lists("core_user_view", sign="")), get(Lists("core_user_view", sign=""), "?search=a"))
    ),
    "api-user": allow_get(Needs("core_user_view"), use_key_of("member")),
    "api-user-groups": Row(
        (
            get(Lists("core_usergroup_view")),
            Ask("post", Needs("core_usergroup_manage", 201), body=service_account_body),
        )
    ),
    "api-user-group": Row(
        (
            get(Needs("core_usergroup_view")),
            Ask(
                "patch",
                Needs("core_usergroup_manage"),
                body=lambda world: {"users": [world.member.pk]},
            ),
            Ask("delete", Needs("core_usergroup_manage", 204)),
        ),
        use_key_of("user_group"),
    ),
    "api-service-accounts": Row(
        (
            get(Lists("core_serviceaccount_view")),
            Ask("post", Needs("core_serviceaccount_edit", 201), body=service_account_body),
        )
    ),
    "api-service-account": Row(
        (
            get(Needs("core_serviceaccount_view")),
            Ask("patch", Needs("core_serviceaccount_edit"), body=lambda world: {"name": "X"}),
            Ask("delete", Needs("core_serviceaccount_delete", 204)),
        ),
        use_key_of("service_account"),
    ),
    "api-invitations": Row(
        (
            get(Lists("core_user_view")),
            Ask(
                "post",
                Needs("core_user_manage", 201, also=list_granted_permissions("viewer")),
                body=invitation_body,
            ),
        )
    ),
    "api-invitation": Row(
        (get(Needs("core_user_view")), Ask("delete", Needs("core_user_manage", 204))),
        use_key_of("invitation"),
    ),
    "api-send-invitation": Row(
        (Ask("post", Needs("core_user_manage"), body=lambda world: {"days": 3}),), use_key_of("invitation")
    ),
    "api-audit": Row(
        (
            get(Lists("core_audit_view", sign="pipeline.execute")),
            get(Lists("core_audit_view", sign=""), "?who=admin&action=apikey&since=2026-01-01"),
        )
    ),
    "api-audit-export": Row(
        (
            get(Lists("core_audit_view", sign="pipeline.execute")),
            get(Lists("core_audit_view", sign="pipeline.execute"), "?as=csv"),
        )
    ),
    "api-audit-entry": allow_get(Needs("core_audit_view"), audit_entry),
}
