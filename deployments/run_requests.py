"""What somebody asks of a run, checked before anything is written or asked of AWS."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connectors.downstream import refuse_lacking
from deployments import plan
from pipelines.definition import step_manifests
from pipelines.definition.approver_groups import bad_groups
from pipelines.definition.parser import PipelineSpec
from pipelines.definition.step_connectors import bad_connectors
from pipelines.definition.step_secrets import bad_secrets
from pipelines.definition.targets import Target, closed_to_delegates, find_targets, missing_values
from pipelines.inputs.variables import GivenInputs, Variable, check_inputs
from pipelines.models import Pipeline
from pipelines.operations.pipelines import known_variables, read, refuse_missing
from pipelines.required_access import needs_of_run
from rbac.models import Scope, User
from rbac.policy import require
from web.problems import BadInput

LONGEST_TAG = 128


@dataclass(frozen=True)
class RunRequest:
    """A run that may begin: what the pipeline says, where it goes, with which image and inputs."""

    spec: PipelineSpec
    targets: list[Target]
    artifact: dict[str, str]
    inputs: dict[str, Any]
    secret_inputs: dict[str, str]
    unknown: frozenset[str] = frozenset()
    """The inputs that have a placeholder because nobody has given them."""


def checked_run(
    *,
    actor: User,
    pipeline: Pipeline,
    yaml: str,
    artifact_tag: str,
    inputs: Mapping[str, Any],
    is_preview: bool = False,
    is_replay: bool = False,
) -> RunRequest:
    """Check what a run of this YAML is told, and that this person may use all that it uses.

    A preview asks for no secrets and makes do without what is missing; a replay has the files of its run.

    Raises `PipelineNotRunnable` when the pipeline cannot run, `BadInput` for a wrong tag or input.
    """
    require(actor, "core_pipeline_execute", pipeline)
    spec = read(yaml)
    targets = targets_of(spec, pipeline.scope, has_manifests=is_replay)
    # R082: a person needs access to what the pipeline uses on their behalf.
    refuse_lacking(actor, needs_of_run(spec, targets, pipeline.scope))
    given = _checked_inputs(spec, inputs, is_preview=is_preview)
    artifact = plan.artifact_of(targets, _checked_tag(artifact_tag), pipeline.scope)
    return RunRequest(spec, targets, artifact, given.plain, given.secrets, unknown_inputs(spec, inputs))


def targets_of(spec: PipelineSpec, scope: Scope, *, has_manifests: bool = False) -> list[Target]:
    """Look up all that a pipeline names. Raises `PipelineNotRunnable` for what cannot run.

    Where an earlier run `has_manifests`, those of steps are not looked for: they may be gone by now.
    """
    targets, missing = find_targets(spec, scope)
    refuse_missing(
        missing
        or [
            *missing_values(targets),
            *closed_to_delegates(targets),
            *([] if has_manifests else step_manifests.bad_manifests(spec, scope)),
            *bad_groups(spec, scope),
            *bad_connectors(spec, scope),
            *bad_secrets(spec, scope),
        ]
    )
    return targets


def asked_variables(pipeline: Pipeline) -> tuple[Variable, ...]:
    """The variables that the form of a run asks for; none where the pipeline cannot be read."""
    return tuple(one for one in known_variables(pipeline) if one.is_asked)


def unknown_inputs(spec: PipelineSpec, inputs: Mapping[str, Any]) -> frozenset[str]:
    """The variables that have nothing but a placeholder; secrets are not looked into."""
    return frozenset(
        one.name
        for one in spec.variables
        if one.is_secret or (one.value is None and inputs.get(one.name) in (None, ""))
    )


def _checked_tag(tag: str) -> str:
    allowed = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
    if len(tag) > LONGEST_TAG or not set(tag) <= allowed or tag.startswith((".", "-")):
        message = "use letters, digits, _ . and -, not starting with . or -, at most 128"
        raise BadInput("This cannot be an image tag.", errors=[{"path": "artifact.tag", "message": message}])
    return tag


def _checked_inputs(spec: PipelineSpec, inputs: Mapping[str, Any], *, is_preview: bool) -> GivenInputs:
    given, errors = check_inputs(spec.variables, inputs, is_preview=is_preview)
    if errors:
        raise BadInput("The pipeline cannot run with these inputs.", errors=errors)
    return given
