"""Every named page with all that can be asked of it."""

from tests.api.asked_things import audit_entry, decision, delegate_task, inquiry
from tests.api.asks import (
    FORM,
    FORM_TO_CHANGE,
    FORM_TO_MAKE,
    PAGE,
    PAGE_OF_ONE,
    PAGE_TO_CHANGE,
    PAGE_TO_MAKE,
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
    service_form,
    to_delete,
    token_form,
    version_of,
)
from tests.api.world import PIPELINE

PAGES: dict[str, Row] = {
    "audit-trail": Row((get(PAGE), get(PAGE, "?who=admin&kind=deployments.pipeline&since=2026-01-01"))),
    "export-audit-trail": Row((get(PAGE, "?as=csv&who=admin"), get(PAGE, "?as=json"))),
    # The deployer and the viewer may not read it; the stranger reads another project's.
    "audit-entry": only((302, 404, 404, 404, 200), audit_entry),
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
    # Access.
    "access-scopes": only(PAGE),
    "archived-scopes": only(PAGE),
    "scope-choices": only(PAGE),
    "new-organization": Row(
        (
            get((302, 404, 404, 404, 200)),
            Ask("post", (302, 404, 404, 404, 302), body=lambda world: {"name": "Made here"}, is_form=True),
        )
    ),
    "access-scope": only(PAGE_OF_ONE, of("scope")),
    "new-project": Row(
        (
            get((302, 404, 404, 404, 200)),
            Ask("post", (302, 404, 404, 404, 302), body=lambda world: {"name": "Made here"}, is_form=True),
        ),
        lambda world: {"pk": world.scope.parent_id},
    ),
    "rename-scope": Row(
        (
            get(PAGE_TO_CHANGE),
            Ask("post", FORM_TO_CHANGE, body=lambda world: {"name": "Made here"}, is_form=True),
        ),
        of("scope"),
    ),
    # An execution is under way there.
    "archive-scope": Row(
        (get(PAGE_TO_CHANGE), Ask("post", (302, 404, 403, 403, 409), is_form=True)), of("scope")
    ),
    "restore-scope": Row((Ask("post", (302, 404, 404, 404, 404), is_form=True),), of("scope")),
}
