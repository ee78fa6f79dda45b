"""Every named address of the site with all that can be asked of it: a new address without a row fails."""

from collections.abc import Iterator
from typing import Any

from django.urls import URLPattern, URLResolver

from tests.api.deployment_rows import DEPLOYMENTS
from tests.api.extra_objects import audit_entry, delegate_task, inquiry, invitation_body
from tests.api.page_rows import PAGES
from tests.api.requests import (
    IN_SCOPE,
    Ask,
    Row,
    add_scope,
    allow_get,
    assignment_body,
    configuration,
    get,
    list_granted_permissions,
    new_rule_body,
    resource_group_body,
    rule_body,
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
from tests.secret_watch.marker import planted

ROWS: dict[str, Row] = {
    # Signing in, probes, descriptions: for everybody.
    "sign-in": Row((get(Open(302, anonymous=200)),)),
    "sign-out": Row((Ask("post", Open(302, anonymous=302), is_form=True),)),
    "admin-sign-in": Row((get(Open(403, anonymous=302)),)),
    "theme": Row((Ask("post", Open(302, anonymous=302), is_form=True),)),
    "csp-reports": Row((Ask("post", Open(204, anonymous=204)),)),
    "schema": allow_get(Open()),
    "docs-api": allow_get(Open()),
    "docs-api-resource": allow_get(Open(), lambda world: {"tag": "connectors"}),
    # No test has the documentation built, but those of tests/web/test_documentation.py.
    "docs": Row((get(Open(404, anonymous=404)),)),
    "docs-page": Row((get(Open(404, anonymous=404)),), lambda world: {"path": "reference/"}),
    **PAGES,
    # Who one is.
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
    # Notification rules.
    "api-notification-rules": Row(
        (
            get(Lists("core_notificationrule_view")),
            Ask("post", Needs("core_notificationrule_edit", 201), body=new_rule_body),
        )
    ),
    "api-notification-rule": Row(
        (
            get(Needs("core_notificationrule_view")),
            Ask("put", Needs("core_notificationrule_edit"), body=rule_body),
            Ask("delete", Needs("core_notificationrule_delete", 204)),
        ),
        use_key_of("notification_rule"),
    ),
    "api-notifications": Row(
        (
            get(Needs("core_notificationrule_view")),
            Ask("post", Needs("core_notificationrule_edit", 201)),
        ),
        use_key_of("notification_rule"),
    ),
    "api-notification-again": Row(
        (Ask("post", Needs("core_notificationrule_edit")),), use_key_of("notification")
    ),
    # Connectors, secrets, files.
    "api-connectors": Row(
        (
            get(Lists("core_connector_view")),
            Ask(
                "post",
                Needs("core_connector_edit", 201),
                body=add_scope(identifier="x", name="X", spec={"credentials": "DefaultChain"}),
            ),
        )
    ),
    "api-connector": Row(
        (
            get(Needs("core_connector_view")),
            Ask("patch", Needs("core_connector_edit"), body=lambda world: {"name": "X"}),
            Ask("delete", Needs("core_connector_delete", 409)),
        ),
        use_key_of("connector"),
    ),
    "api-connector-host-key": Row(
        (
            get(Needs("core_connector_view")),
            Ask("post", Needs("core_connector_edit", 409), body=lambda world: {"fingerprint": "SHA256:x"}),
        ),
        use_key_of("connector"),
    ),
    "api-connector-uses": allow_get(Needs("core_connector_view"), use_key_of("connector")),
    "api-secret-uses": allow_get(Needs("core_secret_view"), use_key_of("secret")),
    "api-connector-test": Row(
        (Ask("post", Needs("core_connector_access", 400), body=lambda world: {"region": "nowhere"}),),
        use_key_of("connector"),
    ),
    "api-connector-clusters": Row((get(Needs("core_connector_access", 400)),), use_key_of("connector")),
    "api-connector-tags": Row((get(Needs("core_connector_access", 400)),), use_key_of("connector")),
    "api-connector-repositories": Row((get(Needs("core_connector_access", 400)),), use_key_of("connector")),
    "api-connector-load-balancers": Row((get(Needs("core_connector_access", 400)),), use_key_of("connector")),
    "api-connector-listeners": Row((get(Needs("core_connector_access", 400)),), use_key_of("connector")),
    "api-connector-rules": Row((get(Needs("core_connector_access", 400)),), use_key_of("connector")),
    "api-connector-test-by-delegate": allow_get(Needs("core_connector_access"), inquiry),
    "api-check-delegate": Row(
        (Ask("post", Needs("core_delegate_edit", 202), body=lambda world: {"url": "https://example.com"}),),
        use_key_of("delegate"),
    ),
    "api-delegate-tasks": Row(
        (
            get(Lists("core_delegate_view")),
            get(Lists("core_delegate_view", sign=""), "?status=QUEUED&delegate=1"),
        )
    ),
    "api-delegate-task": allow_get(Needs("core_delegate_view"), delegate_task),
    "api-abort-delegate-task": Row((Ask("post", Needs("core_delegate_edit")),), delegate_task),
    "api-delegate-task-decisions": allow_get(Needs("core_delegate_view"), delegate_task),
    "api-delegate-task-log": allow_get(Needs("core_delegate_view"), delegate_task),
    "api-aws-regions": allow_get(SignedIn()),
    "api-delegates": Row(
        (
            get(Lists("core_delegate_view")),
            get(Lists("core_delegate_view", sign=""), "?name=eu&tag=x&status=CONNECTED"),
        )
    ),
    "api-delegate": Row(
        (
            get(Needs("core_delegate_view")),
            Ask("patch", Needs("core_delegate_edit"), body=lambda world: {"description": "X"}),
            Ask("delete", Needs("core_delegate_delete", 409)),
        ),
        use_key_of("delegate"),
    ),
    "api-approve-delegate": Row((Ask("post", Needs("core_delegate_edit", 409)),), use_key_of("delegate")),
    "api-reject-delegate": Row((Ask("post", Needs("core_delegate_edit", 409)),), use_key_of("delegate")),
    "api-enable-delegate": Row((Ask("post", Needs("core_delegate_edit", 409)),), use_key_of("delegate")),
    "api-disable-delegate": Row((Ask("post", Needs("core_delegate_edit")),), use_key_of("delegate")),
    "api-drain-delegate": Row((Ask("post", Needs("core_delegate_edit")),), use_key_of("delegate")),
    "api-delegate-tags": Row(
        (
            Ask("put", Needs("core_delegate_edit"), body=lambda world: {"tags": ["eu"]}),
            Ask("delete", Needs("core_delegate_edit")),
        ),
        use_key_of("delegate"),
    ),
    "api-delegate-logs": Row(
        (get(Needs("core_delegate_view")), get(Needs("core_delegate_view"), "?after=1")),
        use_key_of("delegate"),
    ),
    "api-delegate-events": allow_get(Needs("core_delegate_view"), use_key_of("delegate")),
    "api-delegate-configurations": Row(
        (
            get(Lists("core_delegateconfiguration_view")),
            Ask(
                "post",
                Needs("core_delegateconfiguration_edit", 201),
                body=add_scope(identifier="x", name="X"),
            ),
        )
    ),
    "api-delegate-configuration": Row(
        (
            get(Needs("core_delegateconfiguration_view")),
            Ask("patch", Needs("core_delegateconfiguration_edit"), body=lambda world: {"name": "X"}),
            Ask("delete", Needs("core_delegateconfiguration_delete", 409)),
        ),
        configuration,
    ),
    "api-delegate-configuration-runs": allow_get(Needs("core_delegateconfiguration_view"), configuration),
    "api-apply-delegate-configuration": Row(
        (
            Ask(
                "post",
                Needs("core_delegateconfiguration_edit", 200),
                body=lambda world: {"delegates": [world.delegate.pk]},
            ),
        ),
        configuration,
    ),
    "api-delegate-tokens": Row(
        (
            get(Lists("core_delegate_view")),
            get(Lists("core_delegate_view", sign=""), "?status=REVOKED"),
            Ask("post", Needs("core_delegate_edit", 201), body=add_scope(name="new")),
        )
    ),
    "api-delegate-token": Row(
        (
            get(Needs("core_delegate_view")),
            Ask("patch", Needs("core_delegate_edit"), body=lambda world: {"name": "other"}),
            Ask("delete", Needs("core_delegate_delete", 409)),
        ),
        use_key_of("token"),
    ),
    "api-delegate-token-reveal": Row((Ask("post", Needs("core_delegate_edit")),), use_key_of("token")),
    "api-delegate-token-revoke": Row((Ask("post", Needs("core_delegate_edit")),), use_key_of("token")),
    "api-task-spec": Row((Ask("post", Needs("core_delegate_edit"), body=add_scope(name="d1")),)),
    "api-delegate-task-spec": Row(
        (Ask("post", Needs("core_delegate_view"), body=lambda world: {"image": "x:1"}),),
        use_key_of("delegate"),
    ),
    "api-task-spec-check": Row((Ask("post", SignedIn(), body=lambda world: {"task_definition": {}}),)),
    "api-secrets": Row(
        (
            get(Lists("core_secret_view")),
            Ask(
                "post",
                Needs("core_secret_edit", 201),
                body=add_scope(identifier="x", name="X", value=planted("a good secret")),
            ),
        )
    ),
    "api-secret": Row(
        (
            get(Needs("core_secret_view")),
            Ask("patch", Needs("core_secret_edit"), body=lambda world: {"name": "X"}),
            Ask("delete", Needs("core_secret_delete", 409)),
        ),
        use_key_of("secret"),
    ),
    "api-files": Row(
        (
            get(Lists("core_file_view", sign="task.yaml")),
            Ask("post", Needs("core_file_edit", 201), body=add_scope(path="/x.yaml", content="a: 1")),
        )
    ),
    "api-file": Row(
        (
            get(Needs("core_file_view"), IN_SCOPE),
            Ask("put", Needs("core_file_edit"), body=lambda world: {"content": "b: 2"}, query=IN_SCOPE),
            Ask("delete", Needs("core_file_delete", 409), query=IN_SCOPE),
            Ask("delete", Needs("core_file_delete", 204), query=f"{IN_SCOPE}&although_used=1"),
        ),
        lambda world: {"path": "task.yaml"},
    ),
    "api-file-deletions": allow_get(Lists("core_file_view")),
    "api-file-deletion": Row(
        (get(Needs("core_file_view")), Ask("delete", Needs("core_file_delete", 204))), use_key_of("deletion")
    ),
    "api-file-undeletion": Row((Ask("post", Needs("core_file_edit")),), use_key_of("deletion")),
    "api-file-checks": Row(
        (Ask("post", Needs("core_file_view"), body=add_scope(path="/x.yaml", content="a: 1")),)
    ),
    "api-file-clean-ups": Row(
        (
            Ask(
                "post",
                Needs("core_file_view"),
                body=add_scope(path="/x.yaml", content="containerDefinitions: []"),
            ),
        )
    ),
    "api-file-versions": allow_get(Needs("core_file_view"), use_key_of("file")),
    "api-file-version": allow_get(Needs("core_file_view"), lambda world: {"pk": world.file.pk, "version": 1}),
    "api-file-diff": Row(
        (get(Needs("core_file_view"), "?from=1"), get(Needs("core_file_view", 404), "?from=7")),
        use_key_of("file"),
    ),
    "api-file-restore": Row(
        (Ask("post", Needs("core_file_edit"), body=lambda world: {"version": 1}),), use_key_of("file")
    ),
    "api-file-move": Row(
        (
            Ask("post", Needs("core_file_edit", 409), body=lambda world: {"path": "/new.yaml"}),
            Ask(
                "post",
                Needs("core_file_edit"),
                body=lambda world: {"path": "/new.yaml", "although_used": True},
            ),
        ),
        use_key_of("file"),
    ),
    "api-file-uses": allow_get(Needs("core_file_view"), use_key_of("file")),
    **DEPLOYMENTS,
}


def names_of(patterns: list[Any]) -> Iterator[str]:
    for pattern in patterns:
        # The admin site has tests of its own, in tests/rbac/test_admin.py.
        if isinstance(pattern, URLResolver) and pattern.namespace != "admin":
            yield from names_of(pattern.url_patterns)
        elif isinstance(pattern, URLPattern):
            yield pattern.name or f"without a name: {pattern.pattern}"
