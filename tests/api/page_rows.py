"""Every named page with all that can be asked of it."""

from tests.api.account_page_rows import PEOPLE
from tests.api.api_key_page_rows import KEYS
from tests.api.deployment_page_rows import DEPLOYMENT_PAGES
from tests.api.extra_objects import (
    audit_entry,
    delegate_task,
    event_queue,
    event_queue_form,
    event_queue_setup,
    event_queue_setup_form,
    inquiry,
    invitation_form,
    running_event_queue_setup,
)
from tests.api.installation_rows import INSTALLATION
from tests.api.people_page_rows import PEOPLE_PAGES
from tests.api.requests import (
    Ask,
    Row,
    allow_get,
    configuration,
    configuration_form,
    connector_form,
    delegate_form,
    edited_delegate_form,
    file_form,
    folder_form,
    get,
    manifest_form,
    rule_edit_form,
    rule_form,
    secret_form,
    token_form,
    use_key_of,
)
from tests.api.required_access import (
    ACCOUNT,
    ORGANIZATION,
    Anywhere,
    Lists,
    Makes,
    Needs,
    Open,
    Saves,
    SignedIn,
)
from tests.api.sample_project import CANARY

PAGES: dict[str, Row] = {
    **KEYS,
    **PEOPLE,
    **PEOPLE_PAGES,
    **INSTALLATION,
    "invitations": allow_get(Lists("core_user_view")),
    "new-invitation": Row(
        (
            get(Anywhere("core_user_manage")),
            Ask("post", Makes("core_user_manage"), body=invitation_form, is_form=True),
        )
    ),
    "send-invitation-again": Row(
        (Ask("post", Needs("core_user_manage", 302), is_form=True),), use_key_of("invitation")
    ),
    "revoke-invitation": Row(
        (get(Needs("core_user_manage")), Ask("post", Needs("core_user_manage", 302), is_form=True)),
        use_key_of("invitation"),
    ),
    # Nobody but who holds the link of an invitation sees what it offers: tests/accounts/test_invitations.py.
    "join-by-link": Row((get(Open(404, 404)),), lambda world: {"token": "nothing"}),
    "join": Row((get(Open(404, 404)), Ask("post", Open(404, 404), is_form=True))),
    "audit-trail": Row(
        (
            get(Lists("core_audit_view", sign='<span class="name">pipeline.execute</span>')),
            get(Lists("core_audit_view", sign=""), "?who=admin&kind=pipelines.pipeline&since=2026-01-01"),
        )
    ),
    "export-audit-trail": Row(
        (
            get(Lists("core_audit_view", sign=""), "?as=csv&who=admin"),
            get(Lists("core_audit_view", sign="pipeline.execute"), "?as=json"),
        )
    ),
    "audit-entry": allow_get(Needs("core_audit_view"), audit_entry),
    "overview": Row(
        (
            get(Lists("core_pipeline_view", sign=f"{CANARY} rolling")),
            get(Lists("core_pipeline_view", sign=f"{CANARY} rolling"), "?days=90"),
        )
    ),
    "search": Row(
        (
            get(SignedIn()),
            get(Lists("core_service_view", sign=f"{CANARY} app"), "?q=myapp"),
            get(Lists("core_pipeline_view", sign=f"{CANARY} rolling #1"), "?q=%231"),
        )
    ),
    "search-hits": Row(
        (
            get(SignedIn()),
            get(Lists("core_pipeline_view", sign=f"{CANARY} rolling"), "?q=rolling"),
            get(Lists("core_environment_view", sign=f"{CANARY} dev"), "?q=dev"),
        )
    ),
    # The execution of the world has not ended: test_overview_page.py of the dashboards covers the counts.
    "overview-figures": Row(
        (
            get(Lists("core_pipeline_view", sign="")),
            get(Lists("core_pipeline_view", sign=""), "?days=90"),
        )
    ),
    **DEPLOYMENT_PAGES,
    "delegates": allow_get(Lists("core_delegate_view")),
    "diagnose-delegate": Row(
        (Ask("post", Needs("core_delegate_edit", 302), is_form=True),), use_key_of("delegate")
    ),
    "check-delegate": Row(
        (
            Ask(
                "post",
                Needs("core_delegate_edit", 302),
                body=lambda world: {"url": "https://example.com"},
                is_form=True,
            ),
        ),
        use_key_of("delegate"),
    ),
    "delegate-tasks": allow_get(Lists("core_delegate_view")),
    "delegate-task": allow_get(Needs("core_delegate_view"), delegate_task),
    "delegate-task-delegates": allow_get(Needs("core_delegate_view"), delegate_task),
    "abort-delegate-task": Row((Ask("post", Needs("core_delegate_edit", 302), is_form=True),), delegate_task),
    "delegate": Row(
        tuple(
            get(Needs("core_delegate_view"), f"?tab={tab}")
            for tab in ("instances", "tasks", "lists", "log", "events", "spec")
        ),
        use_key_of("delegate"),
    ),
    "delegate-delays": allow_get(Needs("core_delegate_view"), use_key_of("delegate")),
    "edit-delegate": Row(
        (
            get(Needs("core_delegate_edit")),
            Ask("post", Needs("core_delegate_edit", 302), body=edited_delegate_form, is_form=True),
        ),
        use_key_of("delegate"),
    ),
    "disable-delegate": Row(
        (get(Needs("core_delegate_edit")), Ask("post", Needs("core_delegate_edit", 302), is_form=True)),
        use_key_of("delegate"),
    ),
    "delete-delegate": Row(
        (get(Needs("core_delegate_delete")), Ask("post", Needs("core_delegate_delete", 409), is_form=True)),
        use_key_of("delegate"),
    ),
    "approve-delegate": Row(
        (Ask("post", Needs("core_delegate_edit", 302), is_form=True),), use_key_of("delegate")
    ),
    "reject-delegate": Row(
        (Ask("post", Needs("core_delegate_edit", 302), is_form=True),), use_key_of("delegate")
    ),
    "enable-delegate": Row(
        (Ask("post", Needs("core_delegate_edit", 302), is_form=True),), use_key_of("delegate")
    ),
    "drain-delegate": Row(
        (Ask("post", Needs("core_delegate_edit", 302), is_form=True),), use_key_of("delegate")
    ),
    "restore-delegate": Row(
        (Ask("post", Needs("core_delegate_edit", 302), is_form=True),), use_key_of("delegate")
    ),
    "lift-block": Row(
        (Ask("post", Needs("core_delegate_edit", 302), is_form=True),),
        lambda world: {"pk": world.delegate.pk, "entry": 1},
    ),
    "notification-rules": allow_get(Lists("core_notificationrule_view")),
    "notification-rule": allow_get(Needs("core_notificationrule_view"), use_key_of("notification_rule")),
    "new-notification-rule": Row(
        (
            get(Anywhere("core_notificationrule_edit")),
            get(Anywhere("core_notificationrule_edit"), "?kind=Email"),
            get(Anywhere("core_notificationrule_edit"), "?kind=GitHub"),
            Ask("post", Makes("core_notificationrule_edit"), body=rule_form, is_form=True),
        )
    ),
    "edit-notification-rule": Row(
        (
            get(Needs("core_notificationrule_edit")),
            Ask("post", Needs("core_notificationrule_edit", 302), body=rule_edit_form, is_form=True),
            Ask("post", Needs("core_notificationrule_edit", 400), is_form=True),
        ),
        use_key_of("notification_rule"),
    ),
    "delete-notification-rule": Row(
        (
            get(Needs("core_notificationrule_delete")),
            Ask("post", Needs("core_notificationrule_delete", 302), is_form=True),
        ),
        use_key_of("notification_rule"),
    ),
    "test-notification-rule": Row(
        (Ask("post", Needs("core_notificationrule_edit", 302), is_form=True),),
        use_key_of("notification_rule"),
    ),
    "notification-again": Row(
        (Ask("post", Needs("core_notificationrule_edit", 302), is_form=True),), use_key_of("notification")
    ),
    "connectors": allow_get(Lists("core_connector_view")),
    "help-with-delegates": allow_get(SignedIn()),
    "test-connector": Row(
        (Ask("post", Needs("core_connector_access", 302), is_form=True),), use_key_of("connector")
    ),
    "connector-test": allow_get(Needs("core_connector_access", 302), inquiry),
    "connector": allow_get(Needs("core_connector_view"), use_key_of("connector")),
    "new-connector": Row(
        (
            get(Anywhere("core_connector_edit")),
            Ask("post", Makes("core_connector_edit"), body=connector_form, is_form=True),
        )
    ),
    "edit-connector": Row(
        (get(Needs("core_connector_edit")), Ask("post", Needs("core_connector_edit", 400), is_form=True)),
        use_key_of("connector"),
    ),
    "connector-host-key": Row(
        (get(Needs("core_connector_edit")), Ask("post", Needs("core_connector_edit", 409), is_form=True)),
        use_key_of("connector"),
    ),
    "delete-connector": Row(
        (get(Needs("core_connector_delete")), Ask("post", Needs("core_connector_delete", 409), is_form=True)),
        use_key_of("connector"),
    ),
    "delegate-new": Row(
        (
            get(Anywhere("core_delegate_edit")),
            Ask("post", Makes("core_delegate_edit"), body=delegate_form, is_form=True),
        )
    ),
    "check-delegate-name": allow_get(SignedIn()),
    "check-delegate-network": allow_get(SignedIn()),
    "delegate-choices": allow_get(SignedIn(), lambda _: {"name": "subnets"}),
    "edit-delegate-setup": allow_get(Needs("core_delegate_edit"), use_key_of("delegate")),
    "install-delegate": allow_get(Needs("core_delegate_view"), use_key_of("delegate")),
    "download-delegate": Row(
        (
            get(Needs("core_delegate_view")),
            Ask("post", Needs("core_delegate_view"), is_form=True),
        ),
        use_key_of("delegate"),
    ),
    "show-token-of-delegate": Row(
        (Ask("post", Needs("core_delegate_edit", 302), is_form=True),), use_key_of("delegate")
    ),
    "change-token-of-delegate": Row(
        (Ask("post", Needs("core_delegate_edit", 302), is_form=True),), use_key_of("delegate")
    ),
    "delegate-waiting": allow_get(Needs("core_delegate_view"), use_key_of("delegate")),
    "delegate-configurations": allow_get(Lists("core_delegateconfiguration_view")),
    # An executor of pipelines has no right to see these.
    "delegate-configuration": allow_get(Needs("core_delegateconfiguration_view"), configuration),
    "new-delegate-configuration": Row(
        (
            get(Anywhere("core_delegateconfiguration_edit")),
            Ask("post", Makes("core_delegateconfiguration_edit"), body=configuration_form, is_form=True),
        )
    ),
    "edit-delegate-configuration": Row(
        (
            get(Needs("core_delegateconfiguration_edit")),
            Ask("post", Needs("core_delegateconfiguration_edit", 302), body=configuration_form, is_form=True),
        ),
        configuration,
    ),
    "apply-delegate-configuration": Row(
        (Ask("post", Needs("core_delegateconfiguration_edit", 400), is_form=True),), configuration
    ),
    "delete-delegate-configuration": Row(
        (
            get(Needs("core_delegateconfiguration_edit")),
            Ask("post", Needs("core_delegateconfiguration_delete", 409), is_form=True),
        ),
        configuration,
    ),
    "delegate-tokens": allow_get(Lists("core_delegate_view")),
    "delegate-token": allow_get(Needs("core_delegate_view"), use_key_of("token")),
    "new-delegate-token": Row(
        (
            get(Anywhere("core_delegate_edit")),
            Ask("post", Makes("core_delegate_edit"), body=token_form, is_form=True),
        )
    ),
    "show-delegate-token": Row(
        (Ask("post", Needs("core_delegate_edit"), is_form=True),), use_key_of("token")
    ),
    "rename-delegate-token": Row(
        (
            get(Needs("core_delegate_edit")),
            Ask("post", Needs("core_delegate_edit", 302), body=token_form, is_form=True),
        ),
        use_key_of("token"),
    ),
    "revoke-delegate-token": Row(
        (get(Needs("core_delegate_edit")), Ask("post", Needs("core_delegate_edit", 302), is_form=True)),
        use_key_of("token"),
    ),
    "delete-delegate-token": Row(
        (get(Needs("core_delegate_delete")), Ask("post", Needs("core_delegate_delete", 409), is_form=True)),
        use_key_of("token"),
    ),
    "event-queue-stack": allow_get(SignedIn()),
    "new-event-queue": Row(
        (
            get(Needs("core_connector_edit")),
            Ask("post", Needs("core_connector_edit", 302), body=event_queue_form, is_form=True),
        ),
        use_key_of("connector"),
    ),
    "new-event-queue-setup": Row(
        (
            get(Needs("core_connector_edit")),
            Ask("post", Needs("core_connector_edit", 302), body=event_queue_setup_form, is_form=True),
        ),
        use_key_of("connector"),
    ),
    "stop-event-queue-setup": Row(
        (get(Needs("core_connector_edit")), Ask("post", Needs("core_connector_edit", 302), is_form=True)),
        running_event_queue_setup,
    ),
    "dismiss-event-queue-setup": Row(
        (get(Needs("core_connector_edit")), Ask("post", Needs("core_connector_edit", 302), is_form=True)),
        event_queue_setup,
    ),
    "delete-event-queue": Row(
        (get(Needs("core_connector_edit")), Ask("post", Needs("core_connector_edit", 302), is_form=True)),
        event_queue,
    ),
    "secrets": allow_get(Lists("core_secret_view")),
    "secret": allow_get(Needs("core_secret_view"), use_key_of("secret")),
    "new-secret": Row(
        (
            get(Anywhere("core_secret_edit")),
            Ask("post", Makes("core_secret_edit"), body=secret_form, is_form=True),
        )
    ),
    "rotate-secret": Row(
        (
            get(Needs("core_secret_edit")),
            Ask("post", Needs("core_secret_edit", 302), body=secret_form, is_form=True),
        ),
        use_key_of("secret"),
    ),
    "test-secret": Row((Ask("post", Needs("core_secret_access", 302), is_form=True),), use_key_of("secret")),
    "rename-secret": Row(
        (
            get(Needs("core_secret_edit")),
            Ask("post", Needs("core_secret_edit", 302), body=secret_form, is_form=True),
        ),
        use_key_of("secret"),
    ),
    "delete-secret": Row(
        (get(Needs("core_secret_delete")), Ask("post", Needs("core_secret_delete", 409), is_form=True)),
        use_key_of("secret"),
    ),
    "files": allow_get(Lists("core_file_view", sign="task.yaml")),
    "file": allow_get(Needs("core_file_view"), use_key_of("file")),
    "download-file": allow_get(Needs("core_file_view"), use_key_of("file")),
    "file-history": allow_get(Needs("core_file_view"), use_key_of("file")),
    "new-file": Row(
        (get(Anywhere("core_file_edit")), Ask("post", Makes("core_file_edit"), body=file_form, is_form=True))
    ),
    "new-folder": Row(
        (
            get(Anywhere("core_file_edit")),
            Ask("post", Makes("core_file_edit"), body=folder_form, is_form=True),
        )
    ),
    "upload-files": Row((get(Anywhere("core_file_edit")),)),
    "check-file": Row((Ask("post", Needs("core_file_view"), body=file_form, is_form=True),)),
    "clean-up-file": Row((Ask("post", Needs("core_file_view"), body=manifest_form, is_form=True),)),
    "edit-file": Row(
        (
            get(Needs("core_file_edit")),
            Ask(
                "post",
                Saves("core_file_edit", offered=200),
                body=lambda world: {"content": "c: 3", "version": 1},
                is_form=True,
            ),
        ),
        use_key_of("file"),
    ),
    "move-file": Row(
        (
            get(Needs("core_file_edit")),
            Ask(
                "post",
                Needs("core_file_edit", 302),
                body=lambda world: {"path": "/new.yaml", "although_used": "on"},
                is_form=True,
            ),
        ),
        use_key_of("file"),
    ),
    "delete-file": Row(
        (
            get(Needs("core_file_delete")),
            Ask(
                "post",
                Needs("core_file_delete", 302),
                body=lambda world: {"although_used": "on"},
                is_form=True,
            ),
        ),
        use_key_of("file"),
    ),
    "deleted-files": allow_get(Lists("core_file_view")),
    "undelete-files": Row((Ask("post", Needs("core_file_edit", 302), is_form=True),), use_key_of("deletion")),
    "forget-files": Row(
        (
            get(Needs("core_file_delete")),
            Ask("post", Needs("core_file_delete", 302), is_form=True),
        ),
        use_key_of("deletion"),
    ),
    "restore-file": Row(
        (Ask("post", Needs("core_file_edit", 302), is_form=True),),
        lambda world: {"pk": world.file.pk, "version": 1},
    ),
    # Access.
    "effective-access": Row((get(SignedIn()), get(SignedIn(), "?action=deploy"))),
    "access-scopes": allow_get(SignedIn()),
    "archived-scopes": allow_get(SignedIn()),
    "scope-choices": allow_get(SignedIn()),
    "new-organization": Row(
        (
            get(Needs("core_organization_edit", at=ACCOUNT)),
            Ask(
                "post",
                Needs("core_organization_edit", 302, at=ACCOUNT),
                body=lambda world: {"name": "Made here"},
                is_form=True,
            ),
        )
    ),
    "access-scope": allow_get(Needs("core_project_view"), use_key_of("scope")),
    "new-project": Row(
        (
            get(Needs("core_project_edit", at=ORGANIZATION)),
            Ask(
                "post",
                Needs("core_project_edit", 302, at=ORGANIZATION),
                body=lambda world: {"name": "Made here"},
                is_form=True,
            ),
        ),
        lambda world: {"pk": world.scope.parent_id},
    ),
    "rename-scope": Row(
        (
            get(Needs("core_project_edit")),
            Ask(
                "post",
                Needs("core_project_edit", 302),
                body=lambda world: {"name": "Made here"},
                is_form=True,
            ),
        ),
        use_key_of("scope"),
    ),
    # An execution is under way there.
    "archive-scope": Row(
        (
            get(Needs("core_project_delete")),
            Ask("post", Needs("core_project_delete", 409), is_form=True),
        ),
        use_key_of("scope"),
    ),
    "restore-scope": Row((Ask("post", SignedIn(404), is_form=True),), use_key_of("scope")),
}
