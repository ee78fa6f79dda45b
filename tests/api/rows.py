"""Every named address of the site with all that can be asked of it: a new address without a row fails."""

from collections.abc import Iterator
from typing import Any

from django.urls import URLPattern, URLResolver

from tests.api.asked_things import audit_entry, decision, delegate_task, inquiry
from tests.api.asks import (
    ADMIN_LIST,
    CHANGE,
    CREATE,
    DELETE,
    DELETE_USED,
    EVERYBODY,
    IN_SCOPE,
    IN_USE,
    LIST,
    OTHER_PIPELINE,
    READ,
    SIGNED_IN,
    Ask,
    Row,
    assignment_body,
    configuration,
    get,
    here,
    infrastructure_body,
    infrastructure_change,
    of,
    only,
    override,
    override_of_place,
    place,
    resource_group_body,
    service_account_body,
    service_body,
    version_of,
)
from tests.api.page_rows import PAGES
from tests.api.world import PIPELINE

ROWS: dict[str, Row] = {
    # Signing in, probes, descriptions: for everybody.
    "sign-in": Row((get(EVERYBODY[:1] + (302,) * 4),)),
    "sign-out": Row((Ask("post", (302,) * 5, is_form=True),)),
    "admin-sign-in": Row((get((302, 403, 403, 403, 403)),)),
    "theme": Row((Ask("post", (302,) * 5, is_form=True),)),
    "healthz": only(EVERYBODY),
    "readyz": Row((get((503,) * 5),)),
    "schema": only(EVERYBODY),
    "api-docs": only(EVERYBODY),
    **PAGES,
    # Who one is.
    "api-me": only(SIGNED_IN),
    "api-my-permissions": Row((get(READ, IN_SCOPE),)),
    "api-access-check": Row(
        (
            Ask(
                "post",
                SIGNED_IN,
                body=lambda world: {
                    "permissions": [{"permission": "core_pipeline_view", "org": "default", "project": "demo"}]
                },
            ),
        )
    ),
    # Access.
    "api-orgs": Row(
        (
            get(LIST),
            Ask("post", (401, 404, 404, 404, 201), body=lambda world: {"identifier": "x", "name": "X"}),
        )
    ),
    "api-org": Row(
        (
            get(READ),
            Ask("patch", (401, 404, 404, 404, 200), body=lambda world: {"name": "X"}),
        ),
        lambda world: {"org": "default"},
    ),
    "api-projects": Row(
        (
            get(LIST),
            Ask("post", (401, 404, 404, 404, 201), body=lambda world: {"identifier": "x", "name": "X"}),
        ),
        lambda world: {"org": "default"},
    ),
    "api-project": Row(
        (get(READ), Ask("patch", CHANGE, body=lambda world: {"name": "X"})),
        lambda world: {"org": "default", "project": "demo"},
    ),
    "api-all-projects": Row(
        (
            get(LIST),
            Ask(
                "post",
                (401, 404, 404, 404, 201),
                body=lambda world: {"identifier": "x", "name": "X", "org": "default"},
            ),
        )
    ),
    # An execution is under way there.
    "api-archive-org": Row((Ask("post", (401, 404, 404, 404, 409)),), lambda world: {"org": "default"}),
    "api-archive-project": Row((Ask("post", IN_USE),), lambda world: {"org": "default", "project": "demo"}),
    "api-restore-org": Row((Ask("post", (401, 404, 404, 404, 404)),), lambda world: {"org": "default"}),
    "api-restore-project": Row(
        (Ask("post", (401, 404, 404, 404, 404)),), lambda world: {"org": "default", "project": "demo"}
    ),
    "api-roles": Row(
        (
            get(LIST),
            Ask("post", (401, 404, 403, 404, 201), body=here(identifier="x", name="X", permissions=[])),
        )
    ),
    "api-role": Row(
        (
            get(READ[:3] + (404, 200)),
            Ask(
                "put",
                (401, 404, 403, 404, 200),
                body=lambda world: {"name": "X", "permissions": ["core_pipeline_view"]},
            ),
            Ask("delete", (401, 404, 403, 404, 400)),
        ),
        of("role"),
    ),
    "api-role-assignments": Row((get(LIST), Ask("post", (401, 404, 403, 404, 201), body=assignment_body))),
    "api-role-assignment": Row(
        (get((401, 404, 200, 404, 200)), Ask("delete", (401, 404, 403, 404, 204))), of("assignment")
    ),
    "api-keys": Row((get(LIST), Ask("post", (401, 201, 201, 201, 201), body=lambda world: {"name": "x"}))),
    "api-key": Row((get((401, 404, 404, 404, 200)), Ask("delete", (401, 404, 404, 404, 204))), of("key")),
    "api-key-rotation": Row((Ask("post", (401, 404, 404, 404, 200)),), of("key")),
    "api-resource-groups": Row((get(LIST), Ask("post", (401, 404, 403, 404, 201), body=resource_group_body))),
    "api-resource-group": Row(
        (
            get((401, 404, 200, 404, 200)),
            Ask("patch", (401, 404, 403, 404, 200), body=lambda world: {"name": "X", "entries": []}),
            Ask("delete", (401, 404, 403, 404, 204)),
        ),
        of("resource_group"),
    ),
    "api-users": Row((get(LIST), get(LIST, "?search=a"))),
    "api-user": only((401, 404, 200, 404, 200), of("member")),
    "api-user-groups": Row((get(LIST), Ask("post", (401, 404, 403, 404, 201), body=service_account_body))),
    "api-user-group": Row(
        (
            get((401, 404, 200, 404, 200)),
            Ask("patch", (401, 404, 403, 404, 200), body=lambda world: {"users": [world.member.pk]}),
            Ask("delete", (401, 404, 403, 404, 204)),
        ),
        of("user_group"),
    ),
    "api-service-accounts": Row(
        (get(LIST), Ask("post", (401, 404, 403, 404, 201), body=service_account_body))
    ),
    "api-service-account": Row(
        (
            get((401, 404, 200, 404, 200)),
            Ask("patch", (401, 404, 403, 404, 200), body=lambda world: {"name": "X"}),
            Ask("delete", (401, 404, 403, 404, 204)),
        ),
        of("service_account"),
    ),
    "api-audit": Row((get(ADMIN_LIST), get(ADMIN_LIST, "?who=admin&action=apikey&since=2026-01-01"))),
    "api-audit-export": Row((get(ADMIN_LIST), get(ADMIN_LIST, "?as=csv"))),
    "api-audit-entry": only((401, 404, 404, 404, 200), audit_entry),
    # Connectors, secrets, files.
    "api-connectors": Row(
        (
            get(LIST),
            Ask("post", CREATE, body=here(identifier="x", name="X", spec={"credentials": "DefaultChain"})),
        )
    ),
    "api-connector": Row(
        (
            get(READ),
            Ask("patch", CHANGE, body=lambda world: {"name": "X"}),
            Ask("delete", IN_USE),
        ),
        of("connector"),
    ),
    "api-connector-uses": only(READ, of("connector")),
    "api-secret-uses": only(READ, of("secret")),
    "api-connector-test": Row(
        (Ask("post", (401, 404, 403, 400, 400), body=lambda world: {"region": "nowhere"}),), of("connector")
    ),
    "api-connector-clusters": Row((get((401, 404, 403, 400, 400)),), of("connector")),
    "api-connector-load-balancers": Row((get((401, 404, 403, 400, 400)),), of("connector")),
    "api-connector-listeners": Row((get((401, 404, 403, 400, 400)),), of("connector")),
    "api-connector-rules": Row((get((401, 404, 403, 400, 400)),), of("connector")),
    "api-connector-test-by-delegate": only((401, 404, 403, 200, 200), inquiry),
    "api-check-delegate": Row(
        (Ask("post", (401, 404, 403, 403, 202), body=lambda world: {"url": "https://example.com"}),),
        of("delegate"),
    ),
    "api-delegate-tasks": Row((get(LIST), get(LIST, "?status=QUEUED&delegate=1"))),
    "api-delegate-task": only(READ, delegate_task),
    "api-abort-delegate-task": Row((Ask("post", CHANGE),), delegate_task),
    "api-delegate-task-decisions": only(READ, delegate_task),
    "api-delegate-task-log": only(READ, delegate_task),
    "api-aws-regions": only(SIGNED_IN),
    "api-delegates": Row((get(LIST), get(LIST, "?name=eu&tag=x&status=CONNECTED"))),
    "api-delegate": Row(
        (
            get(READ),
            Ask("patch", CHANGE, body=lambda world: {"description": "X"}),
            Ask("delete", IN_USE),
        ),
        of("delegate"),
    ),
    "api-approve-delegate": Row((Ask("post", IN_USE),), of("delegate")),
    "api-reject-delegate": Row((Ask("post", IN_USE),), of("delegate")),
    "api-enable-delegate": Row((Ask("post", IN_USE),), of("delegate")),
    "api-disable-delegate": Row((Ask("post", CHANGE),), of("delegate")),
    "api-drain-delegate": Row((Ask("post", CHANGE),), of("delegate")),
    "api-delegate-tags": Row(
        (Ask("put", CHANGE, body=lambda world: {"tags": ["eu"]}), Ask("delete", CHANGE)), of("delegate")
    ),
    "api-delegate-logs": Row((get(READ), get(READ, "?after=1")), of("delegate")),
    "api-delegate-events": only(READ, of("delegate")),
    "api-delegate-configurations": Row(
        (get(LIST), Ask("post", (401, 404, 403, 404, 201), body=here(identifier="x", name="X")))
    ),
    "api-delegate-configuration": Row(
        (
            get((401, 404, 200, 404, 200)),
            Ask("patch", (401, 404, 403, 404, 200), body=lambda world: {"name": "X"}),
            Ask("delete", (401, 404, 403, 404, 409)),
        ),
        configuration,
    ),
    "api-delegate-configuration-runs": only((401, 404, 200, 404, 200), configuration),
    "api-apply-delegate-configuration": Row(
        (
            Ask(
                "post",
                (401, 404, 403, 404, 200),
                body=lambda world: {"delegates": [world.delegate.pk]},
            ),
        ),
        configuration,
    ),
    "api-delegate-tokens": Row(
        (get(LIST), get(LIST, "?status=REVOKED"), Ask("post", CREATE, body=here(name="new")))
    ),
    "api-delegate-token": Row(
        (get(READ), Ask("patch", CHANGE, body=lambda world: {"name": "other"}), Ask("delete", IN_USE)),
        of("token"),
    ),
    "api-delegate-token-reveal": Row((Ask("post", CHANGE),), of("token")),
    "api-delegate-token-revoke": Row((Ask("post", CHANGE),), of("token")),
    "api-task-spec": Row((Ask("post", CHANGE, body=here(name="d1")),)),
    "api-delegate-task-spec": Row((Ask("post", READ, body=lambda world: {"image": "x:1"}),), of("delegate")),
    "api-task-spec-check": Row((Ask("post", SIGNED_IN, body=lambda world: {"task_definition": {}}),)),
    "api-secrets": Row(
        (get(LIST), Ask("post", CREATE, body=here(identifier="x", name="X", value="a good secret")))
    ),
    "api-secret": Row(
        (get(READ), Ask("patch", CHANGE, body=lambda world: {"name": "X"}), Ask("delete", IN_USE)),
        of("secret"),
    ),
    "api-files": Row((get(LIST), Ask("post", CREATE, body=here(path="/x.yaml", content="a: 1")))),
    "api-file": Row(
        (
            get(READ, IN_SCOPE),
            Ask("put", CHANGE, body=lambda world: {"content": "b: 2"}, query=IN_SCOPE),
            Ask("delete", (401, 404, 403, 403, 409), query=IN_SCOPE),
            Ask("delete", DELETE, query=f"{IN_SCOPE}&although_used=1"),
        ),
        lambda world: {"path": "task.yaml"},
    ),
    "api-file-deletions": only(LIST),
    "api-file-deletion": Row((get(READ), Ask("delete", DELETE)), of("deletion")),
    "api-file-undeletion": Row((Ask("post", CHANGE),), of("deletion")),
    "api-file-checks": Row((Ask("post", READ, body=here(path="/x.yaml", content="a: 1")),)),
    "api-file-versions": only(READ, of("file")),
    "api-file-version": only(READ, lambda world: {"pk": world.file.pk, "version": 1}),
    "api-file-diff": Row((get(READ, "?from=1"), get((401, 404, 404, 404, 404), "?from=7")), of("file")),
    "api-file-restore": Row((Ask("post", CHANGE, body=lambda world: {"version": 1}),), of("file")),
    "api-file-move": Row(
        (
            Ask("post", IN_USE, body=lambda world: {"path": "/new.yaml"}),
            Ask("post", CHANGE, body=lambda world: {"path": "/new.yaml", "although_used": True}),
        ),
        of("file"),
    ),
    "api-file-uses": only(READ, of("file")),
    # Deployments.
    "api-services": Row((get(LIST), Ask("post", CREATE, body=here(identifier="x", name="X")))),
    "api-service": Row((get(READ), Ask("put", CHANGE, body=service_body), *DELETE_USED), of("service")),
    "api-environments": Row((get(LIST), Ask("post", CREATE, body=here(identifier="x", name="X")))),
    "api-environment": Row(
        (get(READ), Ask("put", CHANGE, body=service_body), *DELETE_USED), of("environment")
    ),
    "api-infrastructures": Row((get(READ), Ask("post", CREATE, body=infrastructure_body)), of("environment")),
    "api-infrastructure": Row(
        (get(READ), Ask("put", CHANGE, body=infrastructure_change), *DELETE_USED),
        place,
    ),
    "api-overrides": only(READ, of("environment")),
    "api-override": Row(
        (
            get(READ),
            Ask("put", CHANGE, body=lambda world: {"variables": {"level": "debug"}}),
            Ask("delete", CHANGE),
        ),
        override,
    ),
    "api-counting-manifests": only(READ, override),
    "api-infrastructure-overrides": only(READ, place),
    "api-infrastructure-override": Row(
        (
            get(READ),
            Ask("put", CHANGE, body=lambda world: {"variables": {"level": "debug"}}),
            Ask("delete", CHANGE),
        ),
        override_of_place,
    ),
    "api-infrastructure-counting-manifests": only(READ, override_of_place),
    "api-pipelines": Row((get(LIST), Ask("post", CREATE, body=here(yaml=OTHER_PIPELINE)))),
    "api-pipeline": Row(
        (get(READ), Ask("put", CHANGE, body=lambda world: {"yaml": PIPELINE}), Ask("delete", DELETE)),
        of("pipeline"),
    ),
    "api-pipeline-checks": Row((Ask("post", READ, body=here(yaml=OTHER_PIPELINE)),)),
    "api-pipeline-diff": Row(
        (get(READ, "?from=1"), get((401, 404, 404, 404, 404), "?from=7")), of("pipeline")
    ),
    "api-pipeline-versions": only(READ, of("pipeline")),
    "api-pipeline-version": only(READ, version_of),
    "api-restore-pipeline-version": Row((Ask("post", CHANGE),), version_of),
    "api-pipeline-executions": Row((get(READ), Ask("post", (401, 404, 403, 201, 201))), of("pipeline")),
    "api-preview": Row((Ask("post", (401, 404, 403, 200, 200)),), of("pipeline")),
    "api-iam-policies": only(SIGNED_IN),
    "api-pipeline-schema": only(SIGNED_IN),
    "api-executions": only(LIST),
    "api-execution": only(READ, of("execution")),
    "api-abort": Row((Ask("post", (401, 404, 403, 202, 202)),), of("execution")),
    "api-rollback": Row((Ask("post", (401, 404, 403, 202, 202)),), of("execution")),
    "api-retry": Row((Ask("post", (401, 404, 403, 409, 409)),), of("execution")),
    "api-leftovers": Row(
        (
            get((401, 404, 403, 409, 409)),
            Ask("post", (401, 404, 403, 409, 409), body=lambda world: {"services": ["shopCanary"]}),
        ),
        of("execution"),
    ),
    "api-undo-plan": only(READ, of("execution")),
    "api-decide": Row((Ask("post", (401, 404, 403, 409, 409), body=decision),), of("execution")),
    "api-log": Row((get(READ), get(READ, "?download=1")), of("execution")),
    "api-log-search": Row((get(READ), get(READ, "?q=x")), of("execution")),
    "api-calls": only(READ, of("execution")),
}


def names_of(patterns: list[Any]) -> Iterator[str]:
    for pattern in patterns:
        # The admin site has tests of its own, in tests/rbac/test_admin.py.
        if isinstance(pattern, URLResolver) and pattern.namespace != "admin":
            yield from names_of(pattern.url_patterns)
        elif isinstance(pattern, URLPattern):
            yield pattern.name or f"without a name: {pattern.pattern}"
