"""Every named page about services, environments, pipelines and executions."""

from dataclasses import replace

from deployments.approvals.links import build_approval_link
from tests.api.deployment_rows import TAKES_OVER, UNDOES
from tests.api.extra_objects import adoption, build_accept_form, comparison, create_adopted_service, decision
from tests.api.requests import (
    Ask,
    Row,
    allow_get,
    build_delete_row,
    deployment_of,
    environment_form,
    get,
    input_set_of,
    new_override_form,
    override,
    override_form,
    override_of_place,
    pipeline_form,
    place,
    place_form,
    service_form,
    template_form,
    use_key_of,
    version_of,
)
from tests.api.required_access import HERE, Anywhere, Lists, Makes, Needs, Open, Saves, SignedIn
from tests.api.sample_project import CANARY, PIPELINE
from tests.api.trigger_rows import TRIGGER_PAGES

FREEZE_FORM = {
    "name": "X",
    "begins": "2020-01-01T00:00",
    "ends": "2020-01-02T00:00",
    "time_zone": "UTC",
    "version": 1,
}

DEPLOYMENT_PAGES: dict[str, Row] = {
    "instances": allow_get(Lists("core_environment_view")),
    "service-instances": allow_get(Needs("core_service_view"), use_key_of("service")),
    "sync-infrastructure": Row(
        (Ask("post", Needs("core_environment_access", 302), is_form=True),), use_key_of("infrastructure")
    ),
    "old-inventory": Row((get(Open(302, anonymous=302)),)),
    "inventory": allow_get(Lists("core_service_view")),
    "events": Row(
        (
            get(Lists("core_environment_view")),
            get(Lists("core_environment_view"), "?q=&service=myapp&environment=dev&since=all"),
        )
    ),
    "service-dashboard": allow_get(Needs("core_service_view"), use_key_of("service")),
    "compare-deployments": allow_get(Needs("core_service_view"), use_key_of("service")),
    "return-to-deployment": Row(
        (
            get(Needs("core_pipeline_view")),
            # The one of the world has not ended.
            Ask("post", Needs("core_pipeline_execute", 409), is_form=True),
        ),
        deployment_of,
    ),
    "choose-rollback": allow_get(
        Needs("core_environment_view"),
        lambda world: {"pk": world.service.pk, "infrastructure": world.infrastructure.pk},
    ),
    "choose-rollback-stage": Row((get(Needs("core_pipeline_view", 302)),), use_key_of("execution")),
    "drift": allow_get(Lists("core_environment_view")),
    "drift-of-service": allow_get(Needs("core_environment_view"), comparison),
    "scan-drift": Row((Ask("post", Needs("core_environment_access", 302), is_form=True),), comparison),
    "decide-about-drift": Row(
        (Ask("post", Needs("core_environment_edit", 302), body=build_accept_form, is_form=True),), comparison
    ),
    "daemons": allow_get(Needs("core_environment_view"), use_key_of("infrastructure")),
    "change-service-strategy": allow_get(Needs("core_service_view"), use_key_of("service")),
    "change-strategy": Row(
        (
            get(Needs("core_pipeline_edit", also=("core_service_edit",))),
            # Its connector reaches no account, which the page says.
            Ask("post", Needs("core_pipeline_edit", also=("core_service_edit",)), is_form=True),
        ),
        use_key_of("pipeline"),
    ),
    "unknown-services": allow_get(Needs("core_environment_view"), use_key_of("infrastructure")),
    "read-for-adoption": Row(
        (
            Ask(
                "post",
                Needs("core_environment_edit", 400, also=("core_connector_access",)),
                body=lambda world: {"ecs_service": "x"},
                is_form=True,
            ),
        ),
        use_key_of("infrastructure"),
    ),
    "adoption": Row(
        (
            get(Needs("core_environment_view")),
            Ask(
                "post",
                replace(TAKES_OVER, done=302),
                body=lambda world: {"identifier": "taken", "name": "Taken"},
                is_form=True,
            ),
        ),
        adoption,
    ),
    "undo-adoption": Row(
        (
            get(Needs("core_environment_edit")),
            Ask("post", replace(UNDOES, done=302), is_form=True),
        ),
        create_adopted_service,
    ),
    "executions": allow_get(Lists("core_pipeline_view")),
    "execution": allow_get(Needs("core_pipeline_view"), use_key_of("execution")),
    "execution-delays": allow_get(Needs("core_pipeline_view"), use_key_of("execution")),
    "execution-timeline": allow_get(Needs("core_pipeline_view"), use_key_of("execution")),
    "abort-execution": Row(
        (Ask("post", Needs("core_pipeline_abort", 302), is_form=True),), use_key_of("execution")
    ),
    "roll-back-execution": Row(
        (Ask("post", Needs("core_pipeline_execute", 302), is_form=True),), use_key_of("execution")
    ),
    "rehearse-rollback": Row(
        (
            get(Needs("core_pipeline_execute")),
            Ask(
                "post",
                Needs("core_pipeline_execute"),
                body=lambda world: {"behavior": "healthy"},
                is_form=True,
            ),
        ),
        use_key_of("execution"),
    ),
    "retry-execution": Row(
        (
            get(Needs("core_pipeline_execute")),
            Ask(
                "post",
                Needs("core_pipeline_execute", 409),
                body=lambda world: {"start": "whole"},
                is_form=True,
            ),
        ),
        use_key_of("execution"),
    ),
    "leftovers": Row(
        (
            get(Needs("core_pipeline_execute", 409)),
            Ask(
                "post",
                Needs("core_pipeline_execute", 302),
                body=lambda world: {"services": "x"},
                is_form=True,
            ),
        ),
        use_key_of("execution"),
    ),
    "execution-expressions": Row(
        (get(Needs("core_pipeline_view")), get(Needs("core_pipeline_view"), "?at=deploy/&q=image")),
        use_key_of("execution"),
    ),
    "decide-about-step": Row(
        (Ask("post", Needs("core_pipeline_execute", 302), body=decision, is_form=True),),
        use_key_of("execution"),
    ),
    "approvals": Row((get(Lists("core_pipeline_view"), "?show=all"),)),
    "approval": allow_get(Needs("core_pipeline_view"), use_key_of("approval")),
    "approval-link": Row(
        (get(Needs("core_pipeline_view", 302)),),
        lambda world: {"token": build_approval_link(world.approval).split("/")[-2]},
    ),
    "check-approval": Row(
        (Ask("post", Needs("core_pipeline_view", 302), is_form=True),), use_key_of("approval")
    ),
    "decide-about-approval": Row(
        (
            Ask(
                "post",
                Needs("core_pipeline_view", 403),
                body=lambda world: {"diff": world.approval.plan_hash, "verdict": "approve"},
                is_form=True,
            ),
        ),
        use_key_of("approval"),
    ),
    "freezes": allow_get(
        Lists(
            "core_deploymentfreeze_manage", others=("core_deploymentfreeze_override", "core_pipeline_execute")
        )
    ),
    "new-freeze": Row(
        (
            get(Anywhere("core_deploymentfreeze_manage")),
            Ask(
                "post",
                Makes("core_deploymentfreeze_manage", 302),
                body=lambda world: {**FREEZE_FORM, "in_scope": world.scope.path},
                is_form=True,
            ),
        )
    ),
    "edit-freeze": Row(
        (
            get(Needs("core_deploymentfreeze_manage")),
            Ask(
                "post",
                Needs("core_deploymentfreeze_manage", 302),
                body=lambda world: FREEZE_FORM,
                is_form=True,
            ),
        ),
        use_key_of("freeze"),
    ),
    "delete-freeze": Row(
        (
            get(Needs("core_deploymentfreeze_manage")),
            Ask("post", Needs("core_deploymentfreeze_manage", 302), is_form=True),
        ),
        use_key_of("freeze"),
    ),
    "pipelines": allow_get(Lists("core_pipeline_view")),
    "pipeline": allow_get(Needs("core_pipeline_view"), use_key_of("pipeline")),
    "run-pipeline": Row(
        (
            get(Needs("core_pipeline_execute")),
            Ask("post", Needs("core_pipeline_execute", 302), body=lambda world: {"tag": "v2"}, is_form=True),
        ),
        use_key_of("pipeline"),
    ),
    "preview-pipeline": Row(
        (
            get(Needs("core_pipeline_execute")),
            Ask("post", Needs("core_pipeline_execute"), body=lambda world: {"tag": "v2"}, is_form=True),
        ),
        use_key_of("pipeline"),
    ),
    "rehearse-pipeline": Row(
        (
            Ask(
                "post",
                Needs("core_pipeline_execute"),
                body=lambda world: {"tag": "v2", "behavior": "healthy"},
                is_form=True,
            ),
        ),
        use_key_of("pipeline"),
    ),
    "plan-of-run": Row(
        (Ask("post", Needs("core_pipeline_execute"), body=lambda world: {"tag": "v2"}, is_form=True),),
        use_key_of("pipeline"),
    ),
    "iam-policy": Row((get(SignedIn()),), lambda world: {"identifier": "ecs"}),
    "iam-policies": allow_get(SignedIn()),
    "new-pipeline": Row(
        (
            get(Anywhere("core_pipeline_edit")),
            Ask("post", Makes("core_pipeline_edit"), body=pipeline_form, is_form=True),
            Ask("post", Anywhere("core_pipeline_edit", 302), body=template_form, is_form=True),
        )
    ),
    "check-pipeline": Row((Ask("post", Needs("core_pipeline_view"), body=pipeline_form, is_form=True),)),
    "choose-listeners": allow_get(SignedIn()),
    "source-tags": allow_get(SignedIn(404)),
    "source-repositories": allow_get(SignedIn(404)),
    "service-tags": allow_get(Needs("core_service_view", 409), use_key_of("service")),
    "pipeline-tags": allow_get(Needs("core_pipeline_execute", 409), use_key_of("pipeline")),
    "expressions-here": Row((Ask("post", Needs("core_pipeline_view"), body=pipeline_form, is_form=True),)),
    "pipeline-expressions": Row(
        (get(Needs("core_pipeline_view")), get(Needs("core_pipeline_view"), "?at=deploy/&q=image")),
        use_key_of("pipeline"),
    ),
    "draw-pipeline": Row((Ask("post", SignedIn(), body=pipeline_form, is_form=True),)),
    **TRIGGER_PAGES,
    "input-sets": allow_get(Needs("core_pipeline_view"), use_key_of("pipeline")),
    "new-input-set": Row(
        (
            get(Needs("core_inputset_edit", seen_by="core_pipeline_view")),
            Ask(
                "post",
                Needs("core_inputset_edit", 302, seen_by="core_pipeline_view"),
                body=lambda world: {"name": "Mine"},
                is_form=True,
            ),
        ),
        use_key_of("pipeline"),
    ),
    "edit-input-set": Row(
        (
            get(Needs("core_inputset_edit")),
            Ask(
                "post",
                Needs("core_inputset_edit", 302),
                body=lambda world: {"name": "Other", "version": 1},
                is_form=True,
            ),
        ),
        input_set_of,
    ),
    "delete-input-set": Row(
        (
            get(Needs("core_inputset_delete")),
            Ask("post", Needs("core_inputset_delete", 302), is_form=True),
        ),
        input_set_of,
    ),
    "edit-pipeline-visually": Row(
        (Ask("post", Needs("core_pipeline_view"), body=pipeline_form, is_form=True),)
    ),
    "clusters-for-stage": Row(
        (get(Needs("core_environment_edit", seen_by="core_pipeline_view"), f"?in_scope={HERE}"),)
    ),
    "edit-pipeline": Row(
        (
            get(Needs("core_pipeline_edit")),
            Ask(
                "post",
                Saves("core_pipeline_edit", offered=409),
                body=lambda world: {"yaml": PIPELINE.replace(CANARY, "Another"), "version": 1},
                is_form=True,
            ),
        ),
        use_key_of("pipeline"),
    ),
    "delete-pipeline": Row(
        (get(Needs("core_pipeline_delete")), Ask("post", Needs("core_pipeline_delete", 302), is_form=True)),
        use_key_of("pipeline"),
    ),
    "pipeline-history": Row(
        (get(Needs("core_pipeline_view")), get(Needs("core_pipeline_view"), "?show=1")),
        use_key_of("pipeline"),
    ),
    "restore-pipeline": Row((Ask("post", Needs("core_pipeline_edit", 302), is_form=True),), version_of),
    "services": allow_get(Lists("core_service_view")),
    "service": allow_get(Needs("core_service_view"), use_key_of("service")),
    "new-service": Row(
        (
            get(Anywhere("core_service_edit")),
            Ask("post", Makes("core_service_edit"), body=service_form, is_form=True),
        )
    ),
    "deploy-delegate": Row(
        (
            get(Needs("core_delegate_edit")),
            # Without a choice of project and connector.
            Ask("post", Needs("core_delegate_edit", 400), body=lambda world: {}, is_form=True),
        ),
        use_key_of("delegate"),
    ),
    "remove-delegate": Row(
        (
            get(Needs("core_delegate_delete")),
            # Nothing was deployed.
            Ask("post", Needs("core_delegate_delete", 400), body=lambda world: {}, is_form=True),
        ),
        use_key_of("delegate"),
    ),
    "delegate-upgrades": Row(
        (
            get(Needs("core_delegate_edit")),
            # Without a day.
            Ask("post", Needs("core_delegate_edit", 400), body=lambda world: {}, is_form=True),
        ),
        use_key_of("delegate"),
    ),
    "deploy-image": Row(
        (
            get(Needs("core_service_view")),
            Ask(
                "post",
                Needs("core_pipeline_execute", 302, seen_by="core_service_view", refused=200),
                body=lambda world: {"tag": "v2", "pipeline": world.pipeline.pk},
                is_form=True,
            ),
        ),
        use_key_of("service"),
    ),
    "edit-service": Row(
        (
            get(Needs("core_service_edit")),
            Ask("post", Needs("core_service_edit", 302), body=service_form, is_form=True),
        ),
        use_key_of("service"),
    ),
    "delete-service": build_delete_row("core_service_delete", use_key_of("service")),
    "manifest-words": Row((get(SignedIn(), "?kind=EcsTaskDefinition"), get(SignedIn(404), "?kind=x"))),
    "check-manifest": Row(
        (Ask("post", SignedIn(), body=service_form, is_form=True),),
    ),
    "clean-up-manifest": Row(
        (Ask("post", SignedIn(), body=service_form, is_form=True),),
    ),
    "new-environment": Row(
        (
            get(Anywhere("core_environment_edit")),
            Ask("post", Makes("core_environment_edit"), body=environment_form, is_form=True),
        )
    ),
    "environment": allow_get(Needs("core_environment_view"), use_key_of("environment")),
    "edit-environment": Row(
        (
            get(Needs("core_environment_edit")),
            Ask("post", Needs("core_environment_edit", 302), body=environment_form, is_form=True),
        ),
        use_key_of("environment"),
    ),
    "delete-environment": build_delete_row("core_environment_delete", use_key_of("environment")),
    "service-in-environment": Row(
        (
            get(Needs("core_environment_view")),
            Ask("post", Needs("core_environment_edit", 302), body=override_form, is_form=True),
        ),
        override,
    ),
    "service-in-infrastructure": Row(
        (
            get(Needs("core_environment_view")),
            Ask("post", Needs("core_environment_edit", 302), body=new_override_form, is_form=True),
        ),
        override_of_place,
    ),
    "check-override-in-environment": Row(
        (Ask("post", Needs("core_environment_view"), body=service_form, is_form=True),), override
    ),
    "check-override-in-infrastructure": Row(
        (Ask("post", Needs("core_environment_view"), body=service_form, is_form=True),), override_of_place
    ),
    "manifests-in-environment": allow_get(Needs("core_environment_view"), override),
    "manifests-in-infrastructure": allow_get(Needs("core_environment_view"), override_of_place),
    "clusters": allow_get(Needs("core_environment_edit"), use_key_of("environment")),
    "new-infrastructure": Row(
        (
            get(Needs("core_environment_edit")),
            Ask("post", Needs("core_environment_edit", 302), body=place_form, is_form=True),
        ),
        use_key_of("environment"),
    ),
    "edit-infrastructure": Row(
        (
            get(Needs("core_environment_edit")),
            Ask("post", Needs("core_environment_edit", 302), body=place_form, is_form=True),
        ),
        place,
    ),
    "delete-infrastructure": build_delete_row("core_environment_delete", place),
    "environments": allow_get(Lists("core_environment_view")),
}
