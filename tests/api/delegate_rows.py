"""Every named route about delegates, their tasks, tokens and configurations."""

from deployments.delegate_installs.operations import PROJECT_PERMISSIONS
from tests.api.extra_objects import delegate_task
from tests.api.requests import Ask, Row, add_scope, allow_get, configuration, get, use_key_of
from tests.api.required_access import Lists, Needs, SignedIn

UPGRADE_WINDOW = {"window": {"days": ["Saturday"], "begins": "02:00", "duration_minutes": 120}}


def build_deployment_ask() -> Ask:
    """A delegate of the world has no answers for ECS, so that all who may deploy it learn the reason."""
    also = ("core_connector_access", *PROJECT_PERMISSIONS)
    need = Needs("core_delegate_edit", 400, also=also)
    return Ask("post", need, body=lambda world: {"connector_id": world.connector.pk})


def build_removal_ask(**body: str) -> Ask:
    """A delegate of the world was not deployed, so that all who may remove it learn the reason."""
    need = Needs("core_delegate_delete", 400, also=("core_pipeline_execute",))
    return Ask("post", need, body=lambda world: body)


DELEGATES: dict[str, Row] = {
    "api-diagnose-delegate": Row((Ask("post", Needs("core_delegate_edit", 202)),), use_key_of("delegate")),
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
    "api-delegate-task-explanation": allow_get(Needs("core_delegate_view"), delegate_task),
    "api-delegate-task-candidates": allow_get(Needs("core_delegate_view"), delegate_task),
    "api-delegate-task-log": allow_get(Needs("core_delegate_view"), delegate_task),
    "api-delegates": Row(
        (
            get(Lists("core_delegate_view")),
            get(Lists("core_delegate_view", sign=""), "?name=eu&tag=x&status=CONNECTED"),
            Ask("post", Needs("core_delegate_edit", 201), body=add_scope(name="new")),
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
    "api-restore-delegate": Row((Ask("post", Needs("core_delegate_edit", 409)),), use_key_of("delegate")),
    "api-drain-delegate": Row((Ask("post", Needs("core_delegate_edit")),), use_key_of("delegate")),
    "api-delegate-tags": Row(
        (
            Ask("put", Needs("core_delegate_edit"), body=lambda world: {"tags": ["eu"]}),
            Ask("delete", Needs("core_delegate_edit")),
        ),
        use_key_of("delegate"),
    ),
    "api-delegate-setup": Row(
        (
            get(Needs("core_delegate_view")),
            Ask("patch", Needs("core_delegate_edit"), body=lambda world: {"size": "small"}),
        ),
        use_key_of("delegate"),
    ),
    "api-delegate-deployment-plan": Row((build_deployment_ask(),), use_key_of("delegate")),
    "api-delegate-deployments": Row((build_deployment_ask(),), use_key_of("delegate")),
    "api-delegate-removal-plan": Row((build_removal_ask(),), use_key_of("delegate")),
    "api-delegate-removals": Row((build_removal_ask(digest="0" * 64),), use_key_of("delegate")),
    "api-delegate-upgrade-window": Row(
        (
            get(Needs("core_delegate_view")),
            # Slipway did not deploy the delegate of the world.
            Ask("put", Needs("core_delegate_edit", 409), body=lambda world: UPGRADE_WINDOW),
            Ask("delete", Needs("core_delegate_edit", 204)),
        ),
        use_key_of("delegate"),
    ),
    "api-delegate-delays": allow_get(Needs("core_delegate_view"), use_key_of("delegate")),
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
}
