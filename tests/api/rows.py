"""Every named address of the site with all that can be asked of it: a new address without a row fails."""

from collections.abc import Iterator
from typing import Any

from django.urls import URLPattern, URLResolver
from django.utils import timezone

from delegates.models import DelegateTask, Inquiry
from rbac.models import User
from tests.api.asks import (
    ADMIN_LIST,
    CHANGE,
    CREATE,
    DELETE,
    DELETE_USED,
    EVERYBODY,
    FORM,
    FORM_TO_CHANGE,
    FORM_TO_MAKE,
    IN_SCOPE,
    IN_USE,
    LIST,
    OTHER_PIPELINE,
    PAGE,
    PAGE_OF_ONE,
    PAGE_TO_CHANGE,
    PAGE_TO_MAKE,
    READ,
    SIGNED_IN,
    Ask,
    Row,
    configuration,
    configuration_form,
    connector_form,
    delegate_form,
    edited_delegate_form,
    environment_form,
    file_form,
    folder_form,
    get,
    here,
    infrastructure_body,
    new_override_form,
    of,
    only,
    override,
    override_form,
    override_of_place,
    pipeline_form,
    place,
    place_form,
    secret_form,
    service_body,
    service_form,
    to_delete,
    token_form,
    version_of,
)
from tests.api.world import PIPELINE, World
from tests.delegates.making import make_task


def delegate_task(world: World) -> dict[str, Any]:
    """A delegate task of the world's project that nobody has ended yet."""
    found = DelegateTask.objects.filter(scope=world.scope).order_by("queued_at").first()
    return {"pk": (found or make_task(world.scope)).pk}


def decision(world: World) -> dict[str, Any]:
    """To skip the step of an execution in which nothing waits for that."""
    return {"step": "ecsRollingDeploy", "decision": "SKIP"}


def inquiry(world: World) -> dict[str, Any]:
    """A test of the world's connector through a delegate."""
    asked = Inquiry.objects.filter(connector=world.connector).first() or Inquiry.objects.create(
        connector=world.connector,
        kind=Inquiry.Kind.TEST,
        region="us-east-1",
        asked_by=User.objects.earliest("pk"),
        asked_at=timezone.now(),
    )
    return {"pk": world.connector.pk, "inquiry": asked.pk}


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
    # Pages.
    "overview": only((302,) * 5),
    "executions": only(PAGE),
    "execution": only(PAGE_OF_ONE, of("execution")),
    "abort-execution": Row((Ask("post", FORM, is_form=True),), of("execution")),
    "roll-back-execution": Row((Ask("post", FORM, is_form=True),), of("execution")),
    "retry-execution": Row((Ask("post", FORM, is_form=True),), of("execution")),
    "leftovers": Row(
        (
            get((302, 404, 403, 409, 409)),
            Ask("post", (302, 404, 403, 302, 302), body=lambda world: {"services": "x"}, is_form=True),
        ),
        of("execution"),
    ),
    "decide-about-step": Row((Ask("post", FORM, body=decision, is_form=True),), of("execution")),
    "pipelines": only(PAGE),
    "pipeline": only(PAGE_OF_ONE, of("pipeline")),
    "run-pipeline": Row(
        (
            get((302, 404, 403, 200, 200)),
            Ask("post", FORM, body=lambda world: {"tag": "v2"}, is_form=True),
        ),
        of("pipeline"),
    ),
    "preview-pipeline": Row(
        (
            get((302, 404, 403, 200, 200)),
            Ask("post", FORM, body=lambda world: {"tag": "v2"}, is_form=True),
        ),
        of("pipeline"),
    ),
    "iam-policy": Row((get(PAGE),), lambda world: {"identifier": "ecs"}),
    "iam-policies": only(PAGE),
    "new-pipeline": Row((get(PAGE_TO_MAKE), Ask("post", FORM_TO_MAKE, body=pipeline_form, is_form=True))),
    "check-pipeline": Row((Ask("post", (302, 404, 200, 200, 200), body=pipeline_form, is_form=True),)),
    "choose-listeners": only((302, 200, 200, 200, 200)),
    "draw-pipeline": Row((Ask("post", (302, 200, 200, 200, 200), body=pipeline_form, is_form=True),)),
    "edit-pipeline": Row(
        (
            get(PAGE_TO_CHANGE),
            Ask("post", FORM_TO_CHANGE, body=lambda world: {"yaml": PIPELINE, "version": 1}, is_form=True),
        ),
        of("pipeline"),
    ),
    "delete-pipeline": Row((get(PAGE_TO_CHANGE), Ask("post", FORM_TO_CHANGE, is_form=True)), of("pipeline")),
    "pipeline-history": Row((get(PAGE_OF_ONE), get(PAGE_OF_ONE, "?show=1")), of("pipeline")),
    "restore-pipeline": Row((Ask("post", FORM_TO_CHANGE, is_form=True),), version_of),
    "services": only(PAGE),
    "service": only(PAGE_OF_ONE, of("service")),
    "new-service": Row((get(PAGE_TO_MAKE), Ask("post", FORM_TO_MAKE, body=service_form, is_form=True))),
    "deploy-image": Row(
        (
            get(PAGE_OF_ONE),
            Ask(
                "post",
                (302, 404, 200, 302, 302),
                body=lambda world: {"tag": "v2", "pipeline": world.pipeline.pk},
                is_form=True,
            ),
        ),
        of("service"),
    ),
    "edit-service": Row(
        (get(PAGE_TO_CHANGE), Ask("post", FORM_TO_CHANGE, body=service_form, is_form=True)), of("service")
    ),
    "delete-service": to_delete(of("service")),
    "manifest-words": Row(
        (get((302, 200, 200, 200, 200), "?kind=EcsTaskDefinition"), get((302, 404, 404, 404, 404), "?kind=x"))
    ),
    "check-manifest": Row(
        (Ask("post", (302, 200, 200, 200, 200), body=service_form, is_form=True),),
    ),
    "new-environment": Row(
        (get(PAGE_TO_MAKE), Ask("post", FORM_TO_MAKE, body=environment_form, is_form=True))
    ),
    "environment": only(PAGE_OF_ONE, of("environment")),
    "edit-environment": Row(
        (get(PAGE_TO_CHANGE), Ask("post", FORM_TO_CHANGE, body=environment_form, is_form=True)),
        of("environment"),
    ),
    "delete-environment": to_delete(of("environment")),
    "service-in-environment": Row(
        (get(PAGE_OF_ONE), Ask("post", FORM_TO_CHANGE, body=override_form, is_form=True)), override
    ),
    "service-in-infrastructure": Row(
        (get(PAGE_OF_ONE), Ask("post", FORM_TO_CHANGE, body=new_override_form, is_form=True)),
        override_of_place,
    ),
    "check-override-in-environment": Row(
        (Ask("post", PAGE_OF_ONE, body=service_form, is_form=True),), override
    ),
    "check-override-in-infrastructure": Row(
        (Ask("post", PAGE_OF_ONE, body=service_form, is_form=True),), override_of_place
    ),
    "manifests-in-environment": only(PAGE_OF_ONE, override),
    "manifests-in-infrastructure": only(PAGE_OF_ONE, override_of_place),
    "clusters": only(PAGE_TO_CHANGE, of("environment")),
    "new-infrastructure": Row(
        (get(PAGE_TO_CHANGE), Ask("post", FORM_TO_CHANGE, body=place_form, is_form=True)), of("environment")
    ),
    "edit-infrastructure": Row(
        (get(PAGE_TO_CHANGE), Ask("post", FORM_TO_CHANGE, body=place_form, is_form=True)), place
    ),
    "delete-infrastructure": to_delete(place),
    "environments": only(PAGE),
    "delegates": only(PAGE),
    "check-delegate": Row(
        (Ask("post", FORM_TO_CHANGE, body=lambda world: {"url": "https://example.com"}, is_form=True),),
        of("delegate"),
    ),
    "delegate-tasks": only(PAGE),
    "delegate-task": only(PAGE_OF_ONE, delegate_task),
    "abort-delegate-task": Row((Ask("post", FORM_TO_CHANGE, is_form=True),), delegate_task),
    "delegate": Row(
        tuple(
            get(PAGE_OF_ONE, f"?tab={tab}")
            for tab in ("instances", "tasks", "lists", "log", "events", "spec")
        ),
        of("delegate"),
    ),
    "edit-delegate": Row(
        (get(PAGE_TO_CHANGE), Ask("post", FORM_TO_CHANGE, body=edited_delegate_form, is_form=True)),
        of("delegate"),
    ),
    "disable-delegate": Row((get(PAGE_TO_CHANGE), Ask("post", FORM_TO_CHANGE, is_form=True)), of("delegate")),
    "delete-delegate": Row(
        (get(PAGE_TO_CHANGE), Ask("post", (302, 404, 403, 403, 409), is_form=True)), of("delegate")
    ),
    "approve-delegate": Row((Ask("post", FORM_TO_CHANGE, is_form=True),), of("delegate")),
    "reject-delegate": Row((Ask("post", FORM_TO_CHANGE, is_form=True),), of("delegate")),
    "enable-delegate": Row((Ask("post", FORM_TO_CHANGE, is_form=True),), of("delegate")),
    "drain-delegate": Row((Ask("post", FORM_TO_CHANGE, is_form=True),), of("delegate")),
    "lift-block": Row(
        (Ask("post", FORM_TO_CHANGE, is_form=True),),
        lambda world: {"pk": world.delegate.pk, "entry": 1},
    ),
    "connectors": only(PAGE),
    "help-with-delegates": only(PAGE),
    "test-connector": Row((Ask("post", (302, 404, 403, 302, 302), is_form=True),), of("connector")),
    "connector-test": only((302, 404, 403, 302, 302), inquiry),
    "connector": only(PAGE_OF_ONE, of("connector")),
    "new-connector": Row((get(PAGE_TO_MAKE), Ask("post", FORM_TO_MAKE, body=connector_form, is_form=True))),
    "edit-connector": Row(
        (get(PAGE_TO_CHANGE), Ask("post", (302, 404, 403, 403, 400), is_form=True)), of("connector")
    ),
    "delete-connector": Row(
        (get(PAGE_TO_CHANGE), Ask("post", (302, 404, 403, 403, 409), is_form=True)), of("connector")
    ),
    "delegate-new": Row((get(PAGE_TO_MAKE), Ask("post", FORM_TO_MAKE, body=delegate_form, is_form=True))),
    "install-delegate": only(PAGE_OF_ONE, of("delegate")),
    "download-delegate": only(PAGE_OF_ONE, of("delegate")),
    "change-token-of-delegate": Row((Ask("post", FORM_TO_CHANGE, is_form=True),), of("delegate")),
    "delegate-waiting": only(PAGE_OF_ONE, of("delegate")),
    "delegate-configurations": only(PAGE),
    # An executor of pipelines has no right to see these.
    "delegate-configuration": only((302, 404, 200, 404, 200), configuration),
    "new-delegate-configuration": Row(
        (get(PAGE_TO_MAKE), Ask("post", FORM_TO_MAKE, body=configuration_form, is_form=True))
    ),
    "edit-delegate-configuration": Row(
        (
            get((302, 404, 403, 404, 200)),
            Ask("post", (302, 404, 403, 404, 302), body=configuration_form, is_form=True),
        ),
        configuration,
    ),
    "apply-delegate-configuration": Row(
        (Ask("post", (302, 404, 403, 404, 400), is_form=True),), configuration
    ),
    "delete-delegate-configuration": Row(
        (get((302, 404, 403, 404, 200)), Ask("post", (302, 404, 403, 404, 409), is_form=True)),
        configuration,
    ),
    "delegate-tokens": only(PAGE),
    "delegate-token": only(PAGE_OF_ONE, of("token")),
    "new-delegate-token": Row((get(PAGE_TO_MAKE), Ask("post", FORM_TO_MAKE, body=token_form, is_form=True))),
    "show-delegate-token": Row((Ask("post", PAGE_TO_CHANGE, is_form=True),), of("token")),
    "rename-delegate-token": Row(
        (get(PAGE_TO_CHANGE), Ask("post", FORM_TO_CHANGE, body=token_form, is_form=True)), of("token")
    ),
    "revoke-delegate-token": Row(
        (get(PAGE_TO_CHANGE), Ask("post", FORM_TO_CHANGE, is_form=True)), of("token")
    ),
    "delete-delegate-token": Row(
        (get(PAGE_TO_CHANGE), Ask("post", (302, 404, 403, 403, 409), is_form=True)), of("token")
    ),
    "secrets": only(PAGE),
    "secret": only(PAGE_OF_ONE, of("secret")),
    "new-secret": Row((get(PAGE_TO_MAKE), Ask("post", FORM_TO_MAKE, body=secret_form, is_form=True))),
    "rotate-secret": Row(
        (get(PAGE_TO_CHANGE), Ask("post", FORM_TO_CHANGE, body=secret_form, is_form=True)), of("secret")
    ),
    "rename-secret": Row(
        (get(PAGE_TO_CHANGE), Ask("post", FORM_TO_CHANGE, body=secret_form, is_form=True)), of("secret")
    ),
    "delete-secret": Row(
        (get(PAGE_TO_CHANGE), Ask("post", (302, 404, 403, 403, 409), is_form=True)), of("secret")
    ),
    "files": only(PAGE),
    "file": only(PAGE_OF_ONE, of("file")),
    "download-file": only(PAGE_OF_ONE, of("file")),
    "file-history": only(PAGE_OF_ONE, of("file")),
    "new-file": Row((get(PAGE_TO_MAKE), Ask("post", FORM_TO_MAKE, body=file_form, is_form=True))),
    "new-folder": Row((get(PAGE_TO_MAKE), Ask("post", FORM_TO_MAKE, body=folder_form, is_form=True))),
    "upload-files": Row((get(PAGE_TO_MAKE),)),
    "check-file": Row((Ask("post", (302, 404, 200, 200, 200), body=file_form, is_form=True),)),
    "edit-file": Row(
        (
            get(PAGE_TO_CHANGE),
            Ask("post", FORM_TO_CHANGE, body=lambda world: {"content": "c: 3", "version": 1}, is_form=True),
        ),
        of("file"),
    ),
    "move-file": Row(
        (
            get(PAGE_TO_CHANGE),
            Ask(
                "post",
                FORM_TO_CHANGE,
                body=lambda world: {"path": "/new.yaml", "although_used": "on"},
                is_form=True,
            ),
        ),
        of("file"),
    ),
    "delete-file": Row(
        (
            get(PAGE_TO_CHANGE),
            Ask("post", FORM_TO_CHANGE, body=lambda world: {"although_used": "on"}, is_form=True),
        ),
        of("file"),
    ),
    "deleted-files": only(PAGE),
    "undelete-files": Row((Ask("post", FORM_TO_CHANGE, is_form=True),), of("deletion")),
    "forget-files": Row((Ask("post", FORM_TO_CHANGE, is_form=True),), of("deletion")),
    "restore-file": Row(
        (Ask("post", FORM_TO_CHANGE, is_form=True),), lambda world: {"pk": world.file.pk, "version": 1}
    ),
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
    "api-role-assignments": Row(
        (get(LIST), Ask("post", (401, 404, 403, 404, 201), body=here(role="viewer", user="stranger")))
    ),
    "api-role-assignment": Row(
        (get((401, 404, 200, 404, 200)), Ask("delete", (401, 404, 403, 404, 204))), of("assignment")
    ),
    "api-keys": Row((get(LIST), Ask("post", (401, 201, 201, 201, 201), body=lambda world: {"name": "x"}))),
    "api-key": Row((get((401, 404, 404, 404, 200)), Ask("delete", (401, 404, 404, 404, 204))), of("key")),
    "api-audit": only(ADMIN_LIST),
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
        (get(READ), Ask("put", CHANGE, body=infrastructure_body), *DELETE_USED),
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
