"""Every named route about services, environments, pipelines and executions."""

from tests.api.extra_objects import (
    accepted_field,
    adoption,
    build_drift_body,
    comparison,
    create_adopted_service,
    decision,
)
from tests.api.requests import (
    IN_SCOPE,
    OTHER_PIPELINE,
    Ask,
    Row,
    add_scope,
    allow_get,
    delete_used,
    deployment_of,
    get,
    infrastructure_body,
    infrastructure_change,
    input_set_body,
    override,
    override_of_place,
    place,
    service_body,
    use_key_of,
    version_of,
)
from tests.api.required_access import Belongs, Lists, Needs, SignedIn
from tests.api.sample_project import PIPELINE
from tests.api.trigger_rows import TRIGGERS

FREEZE = {"name": "X", "begins": "2020-01-01T00:00", "ends": "2020-01-02T00:00"}

TAKES_OVER = Needs(
    "core_environment_edit",
    also=(
        "core_service_edit",
        "core_pipeline_edit",
        "core_service_access",
        "core_environment_access",
        "core_connector_access",
    ),
)
READS_STRATEGY = Needs("core_pipeline_edit", 409, also=("core_service_edit", "core_connector_access"))
UNDOES = Needs("core_environment_edit", also=("core_service_delete", "core_pipeline_delete"))

DEPLOYMENTS: dict[str, Row] = {
    # Inventory.
    "api-overview": Row(
        (get(Belongs(), f"{IN_SCOPE}&days=30"),),
    ),
    "api-what-runs-where": allow_get(Lists("core_service_view")),
    "api-events": Row((get(Lists("core_environment_view")), get(Lists("core_environment_view"), "?q=4711"))),
    "api-service-dashboard": allow_get(Needs("core_service_view"), use_key_of("service")),
    "api-service-deployments": allow_get(Needs("core_service_view"), use_key_of("service")),
    "api-compare-deployments": allow_get(Needs("core_service_view", 404), use_key_of("service")),
    # The one of the world has not ended.
    "api-return-to-deployment": Row(
        (get(Needs("core_pipeline_view")), Ask("post", Needs("core_pipeline_execute", 409))), deployment_of
    ),
    "api-service-instances": Row((get(Needs("core_service_view")),), use_key_of("service")),
    "api-infrastructure-sync": Row(
        (get(Needs("core_environment_view")), Ask("post", Needs("core_environment_access", 202))),
        use_key_of("infrastructure"),
    ),
    # What was changed outside.
    "api-drift": Row((get(Lists("core_environment_view")),)),
    "api-drift-of-service": Row((get(Needs("core_environment_view")),), comparison),
    "api-scan-drift": Row((Ask("post", Needs("core_environment_access", 202)),), comparison),
    "api-accept-drift": Row((Ask("post", Needs("core_environment_edit"), body=accepted_field),), comparison),
    "api-withdraw-drift": Row(
        (Ask("post", Needs("core_environment_edit"), body=build_drift_body),), comparison
    ),
    # What is taken over.
    "api-daemons": Row((get(Needs("core_environment_view")),), use_key_of("infrastructure")),
    "api-unknown-services": Row((get(Needs("core_environment_view")),), use_key_of("infrastructure")),
    "api-adoptions": Row(
        (
            Ask(
                "post",
                Needs("core_environment_edit", 400, also=("core_connector_access",)),
                body=lambda world: {"ecs_service": "x"},
            ),
        ),
        use_key_of("infrastructure"),
    ),
    "api-adoption": Row((get(Needs("core_environment_view")),), adoption),
    "api-adopt": Row(
        (Ask("post", TAKES_OVER, body=lambda world: {"identifier": "taken", "name": "Taken"}),), adoption
    ),
    "api-undo-adoption": Row((Ask("post", UNDOES),), create_adopted_service),
    # Deployments.
    "api-services": Row(
        (
            get(Lists("core_service_view")),
            Ask("post", Needs("core_service_edit", 201), body=add_scope(identifier="x", name="X")),
        )
    ),
    "api-service": Row(
        (
            get(Needs("core_service_view")),
            Ask("put", Needs("core_service_edit"), body=service_body),
            *delete_used("core_service_delete"),
        ),
        use_key_of("service"),
    ),
    "api-environments": Row(
        (
            get(Lists("core_environment_view")),
            Ask("post", Needs("core_environment_edit", 201), body=add_scope(identifier="x", name="X")),
        )
    ),
    "api-environment": Row(
        (
            get(Needs("core_environment_view")),
            Ask("put", Needs("core_environment_edit"), body=service_body),
            *delete_used("core_environment_delete"),
        ),
        use_key_of("environment"),
    ),
    "api-infrastructures": Row(
        (
            get(Needs("core_environment_view")),
            Ask("post", Needs("core_environment_edit", 201), body=infrastructure_body),
        ),
        use_key_of("environment"),
    ),
    "api-infrastructure": Row(
        (
            get(Needs("core_environment_view")),
            Ask("put", Needs("core_environment_edit"), body=infrastructure_change),
            *delete_used("core_environment_delete"),
        ),
        place,
    ),
    "api-overrides": allow_get(Needs("core_environment_view"), use_key_of("environment")),
    "api-override": Row(
        (
            get(Needs("core_environment_view")),
            Ask("put", Needs("core_environment_edit"), body=lambda world: {"variables": {"level": "debug"}}),
            Ask("delete", Needs("core_environment_edit")),
        ),
        override,
    ),
    "api-counting-manifests": allow_get(Needs("core_environment_view"), override),
    "api-infrastructure-overrides": allow_get(Needs("core_environment_view"), place),
    "api-infrastructure-override": Row(
        (
            get(Needs("core_environment_view")),
            Ask("put", Needs("core_environment_edit"), body=lambda world: {"variables": {"level": "debug"}}),
            Ask("delete", Needs("core_environment_edit")),
        ),
        override_of_place,
    ),
    "api-infrastructure-counting-manifests": allow_get(Needs("core_environment_view"), override_of_place),
    "api-input-sets": Row(
        (
            get(Lists("core_inputset_view")),
            get(Lists("core_inputset_view", sign=""), "?pipeline=999999"),
            Ask("post", Needs("core_inputset_edit", 201, seen_by="core_pipeline_view"), body=input_set_body),
        )
    ),
    "api-input-set": Row(
        (
            get(Needs("core_inputset_view")),
            Ask("put", Needs("core_inputset_edit"), body=lambda world: {"name": "Other"}),
            Ask("delete", Needs("core_inputset_delete", 204)),
        ),
        use_key_of("input_set"),
    ),
    **TRIGGERS,
    "api-pipelines": Row(
        (
            get(Lists("core_pipeline_view")),
            Ask("post", Needs("core_pipeline_edit", 201), body=add_scope(yaml=OTHER_PIPELINE)),
        )
    ),
    "api-pipeline": Row(
        (
            get(Needs("core_pipeline_view")),
            Ask("put", Needs("core_pipeline_edit"), body=lambda world: {"yaml": PIPELINE}),
            Ask("delete", Needs("core_pipeline_delete", 204)),
        ),
        use_key_of("pipeline"),
    ),
    "api-pipeline-checks": Row(
        (Ask("post", Needs("core_pipeline_view"), body=add_scope(yaml=OTHER_PIPELINE)),)
    ),
    "api-pipeline-diff": Row(
        (get(Needs("core_pipeline_view"), "?from=1"), get(Needs("core_pipeline_view", 404), "?from=7")),
        use_key_of("pipeline"),
    ),
    "api-pipeline-versions": allow_get(Needs("core_pipeline_view"), use_key_of("pipeline")),
    "api-pipeline-version": allow_get(Needs("core_pipeline_view"), version_of),
    "api-restore-pipeline-version": Row((Ask("post", Needs("core_pipeline_edit")),), version_of),
    "api-pipeline-executions": Row(
        (get(Needs("core_pipeline_view")), Ask("post", Needs("core_pipeline_execute", 201))),
        use_key_of("pipeline"),
    ),
    "api-preview": Row((Ask("post", Needs("core_pipeline_execute")),), use_key_of("pipeline")),
    "api-rehearsal": Row((Ask("post", Needs("core_pipeline_execute")),), use_key_of("pipeline")),
    "api-iam-policies": allow_get(SignedIn()),
    "api-pipeline-schema": allow_get(SignedIn()),
    "api-approvals": allow_get(Lists("core_pipeline_view")),
    "api-approval": allow_get(Needs("core_pipeline_view"), use_key_of("approval")),
    # Who may decide is who is in a group: nobody here is.
    "api-approve": Row(
        (
            Ask(
                "post",
                Needs("core_pipeline_view", 403),
                body=lambda world: {"diff": world.approval.plan_hash},
            ),
        ),
        use_key_of("approval"),
    ),
    "api-reject": Row(
        (
            Ask(
                "post",
                Needs("core_pipeline_view", 403),
                body=lambda world: {"diff": world.approval.plan_hash},
            ),
        ),
        use_key_of("approval"),
    ),
    "api-check-approval": Row((Ask("post", Needs("core_pipeline_view", 202)),), use_key_of("approval")),
    "api-freeze-windows": Row(
        (
            get(Lists("core_deploymentfreeze_manage")),
            Ask("post", Needs("core_deploymentfreeze_manage", 201), body=add_scope(identifier="x", **FREEZE)),
        )
    ),
    "api-freeze-window": Row(
        (
            get(Needs("core_deploymentfreeze_manage")),
            Ask("put", Needs("core_deploymentfreeze_manage"), body=lambda world: FREEZE),
            Ask("delete", Needs("core_deploymentfreeze_manage", 204)),
        ),
        use_key_of("freeze"),
    ),
    "api-executions": allow_get(Lists("core_pipeline_view")),
    "api-execution": allow_get(Needs("core_pipeline_view"), use_key_of("execution")),
    "api-abort": Row((Ask("post", Needs("core_pipeline_abort", 202)),), use_key_of("execution")),
    "api-rollback": Row((Ask("post", Needs("core_pipeline_execute", 202)),), use_key_of("execution")),
    # It still runs.
    "api-rollback-rehearsal": Row(
        (Ask("post", Needs("core_pipeline_execute", 409)),), use_key_of("execution")
    ),
    "api-execution-delays": allow_get(Needs("core_pipeline_view"), use_key_of("execution")),
    "api-attempts": Row(
        (get(Needs("core_pipeline_view")), Ask("post", Needs("core_pipeline_execute", 409))),
        use_key_of("execution"),
    ),
    "api-retry": Row((Ask("post", Needs("core_pipeline_execute", 409)),), use_key_of("execution")),
    "api-leftovers": Row(
        (
            get(Needs("core_pipeline_execute", 409)),
            Ask("post", Needs("core_pipeline_execute", 409), body=lambda world: {"services": ["shopCanary"]}),
        ),
        use_key_of("execution"),
    ),
    "api-undo-plan": allow_get(Needs("core_pipeline_view"), use_key_of("execution")),
    "api-decide": Row(
        (Ask("post", Needs("core_pipeline_execute", 409), body=decision),), use_key_of("execution")
    ),
    "api-log": Row(
        (get(Needs("core_pipeline_view")), get(Needs("core_pipeline_view"), "?download=1")),
        use_key_of("execution"),
    ),
    "api-log-search": Row(
        (get(Needs("core_pipeline_view")), get(Needs("core_pipeline_view"), "?q=x")), use_key_of("execution")
    ),
    # The connector reaches no account.
    "api-pipeline-strategy": Row(
        (
            get(READS_STRATEGY),
            Ask("post", READS_STRATEGY, body=lambda world: {"strategy": "ROLLING", "digest": "x"}),
        ),
        use_key_of("pipeline"),
    ),
    "api-preview-pipeline-strategy": Row(
        (Ask("post", READS_STRATEGY, body=lambda world: {"strategy": "ROLLING"}),), use_key_of("pipeline")
    ),
    "api-pipeline-expressions": Row(
        (get(Needs("core_pipeline_view")), get(Needs("core_pipeline_view"), "?q=image&at=deploy/")),
        use_key_of("pipeline"),
    ),
    "api-execution-expressions": Row(
        (
            get(Needs("core_pipeline_view")),
            get(Needs("core_pipeline_view"), "?q=image&page_size=1"),
            get(Needs("core_pipeline_view"), "?at=deploy/"),
        ),
        use_key_of("execution"),
    ),
    "api-calls": allow_get(Needs("core_pipeline_view"), use_key_of("execution")),
}
