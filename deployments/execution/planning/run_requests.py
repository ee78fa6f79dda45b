"""Run requests, validated before anything is written or sent to AWS."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connectors.required_access import require_access
from deployments.execution.planning.rows import resolve_artifact
from pipelines.definition import step_manifests
from pipelines.definition.approver_groups import list_unknown_groups
from pipelines.definition.parser import PipelineSpec
from pipelines.definition.stage_targets import (
    StageTarget,
    find_delegate_conflicts,
    find_missing_values,
    find_stage_targets,
)
from pipelines.definition.step_references import find_missing_connectors, find_missing_secrets
from pipelines.deployability import find_image_conflicts
from pipelines.inputs.variables import PipelineVariable, RunInputs, validate_inputs
from pipelines.models import Pipeline
from pipelines.operations.pipelines import list_pipeline_variables, parse_valid_pipeline, require_no_problems
from pipelines.required_access import list_run_needs
from rbac.models import Scope, User
from rbac.policy import require
from web.http.problems import BadInput

LONGEST_TAG = 128


@dataclass(frozen=True)
class RunRequest:
    """Validated run: who starts it, its YAML, targets, image and inputs."""

    actor: User
    spec: PipelineSpec
    targets: list[StageTarget]
    artifact: dict[str, str]
    inputs: dict[str, Any]
    secret_inputs: dict[str, str]
    unknown: frozenset[str] = frozenset()
    """The inputs that have a placeholder because nobody has given them."""
    force_new_deployment: bool | None = None
    """Whether a preview or a rehearsal replaces tasks without differences; None leaves it to the step."""


def validate_run(  # noqa: PLR0913 - the settings of a run
    *,
    actor: User,
    pipeline: Pipeline,
    yaml: str,
    artifact_tag: str,
    inputs: Mapping[str, Any],
    is_preview: bool = False,
    is_replay: bool = False,
    has_run: bool = False,
    targets: list[StageTarget] | None = None,
) -> RunRequest:
    """Validate a run of this YAML, and the user's access to all its resources.

    A preview asks for no secrets and accepts missing inputs; a replay uses the files of its run. YAML that
    `has_run`, as in each replay, is not refused by rules that are newer than it. `targets` are those of the
    YAML, if they have been resolved already.

    Raises `PipelineNotRunnable` for an invalid pipeline, `BadInput` for a wrong tag or input.
    """
    require(actor, "core_pipeline_execute", pipeline)
    spec = parse_valid_pipeline(yaml, has_run=has_run or is_replay)
    if targets is None:
        targets = resolve_targets(spec, pipeline.scope, has_manifests=is_replay)
    # R082: users need access to all resources that the pipeline uses for them.
    require_access(actor, list_run_needs(targets, pipeline.scope))
    run_inputs = _validate_inputs(spec, inputs, is_preview=is_preview)
    artifact = resolve_artifact(targets, _validate_tag(artifact_tag), pipeline.scope)
    return RunRequest(
        actor,
        spec,
        targets,
        artifact,
        run_inputs.plain,
        run_inputs.secrets,
        list_unknown_inputs(spec, inputs),
    )


def resolve_targets(spec: PipelineSpec, scope: Scope, *, has_manifests: bool = False) -> list[StageTarget]:
    """Return the targets of a pipeline. Raises `PipelineNotRunnable`.

    If an earlier run `has_manifests`, step manifests are not looked up: they may be deleted by now. Images
    are not compared, so that a rollback is never refused for an image that has changed since.
    """
    targets, missing = find_stage_targets(spec, scope)
    require_no_problems(
        missing
        or [
            *find_missing_values(targets),
            *find_delegate_conflicts(targets),
            *([] if has_manifests else find_image_conflicts(targets)),
            *([] if has_manifests else step_manifests.check_own_manifests(spec, scope)),
            *list_unknown_groups(spec, scope),
            *find_missing_connectors(spec, scope),
            *find_missing_secrets(spec, scope),
        ]
    )
    return targets


def list_requested_variables(pipeline: Pipeline) -> tuple[PipelineVariable, ...]:
    """Return the variables that the run form asks for; none for an unreadable pipeline."""
    return tuple(variable for variable in list_pipeline_variables(pipeline) if variable.is_runtime_input)


def list_unknown_inputs(spec: PipelineSpec, inputs: Mapping[str, Any]) -> frozenset[str]:
    """Return the variables with only a placeholder as value; secrets are not read."""
    return frozenset(
        variable.name
        for variable in spec.variables
        if variable.is_secret
        or (variable.is_required and variable.value is None and inputs.get(variable.name) in (None, ""))
    )


def _validate_tag(tag: str) -> str:
    allowed = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
    if len(tag) > LONGEST_TAG or not set(tag) <= allowed or tag.startswith((".", "-")):
        message = "use letters, digits, _ . and -, not starting with . or -, at most 128"
        raise BadInput(
            "This is not a valid image tag.", errors=[{"path": "artifact.tag", "message": message}]
        )
    return tag


def _validate_inputs(spec: PipelineSpec, inputs: Mapping[str, Any], *, is_preview: bool) -> RunInputs:
    run_inputs, errors = validate_inputs(spec.variables, inputs, is_preview=is_preview)
    if errors:
        raise BadInput("The pipeline cannot run with these inputs.", errors=errors)
    return run_inputs
