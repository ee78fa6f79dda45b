"""Every named route about connectors, secrets and files."""

from tests.api.extra_objects import (
    event_queue,
    event_queue_form,
    event_queue_setup,
    inquiry,
    running_event_queue_setup,
)
from tests.api.requests import IN_SCOPE, Ask, Row, add_scope, allow_get, get, use_key_of
from tests.api.required_access import Lists, Needs, SignedIn
from tests.secret_watch.marker import planted

CONNECTORS: dict[str, Row] = {
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
    "api-secret-test": Row((Ask("post", Needs("core_secret_access")),), use_key_of("secret")),
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
    "api-event-queues": Row(
        (
            get(Lists("core_connector_view", sign="eu-central-1")),
            Ask("post", Needs("core_connector_edit", 201), body=event_queue_form),
        )
    ),
    "api-event-queue": Row(
        (get(Needs("core_connector_view")), Ask("delete", Needs("core_connector_edit", 204))), event_queue
    ),
    "api-event-queue-setups": Row(
        (
            get(Lists("core_connector_view", sign="eu-west-1")),
            Ask(
                "post",
                Needs("core_connector_edit", 201),
                body=lambda world: {"connector": world.connector.pk, "region": "us-east-1"},
            ),
        )
    ),
    "api-event-queue-setup": Row((get(Needs("core_connector_view")),), event_queue_setup),
    "api-stop-event-queue-setup": Row(
        (Ask("post", Needs("core_connector_edit")),), running_event_queue_setup
    ),
    "api-dismiss-event-queue-setup": Row((Ask("post", Needs("core_connector_edit")),), event_queue_setup),
    "api-aws-regions": allow_get(SignedIn()),
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
}
