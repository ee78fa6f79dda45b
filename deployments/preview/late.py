"""What a previewed step does with what earlier steps would hand to it, as far as a preview knows that."""

from collections.abc import Mapping
from typing import Any

from deployments.engine.sources import known_values
from deployments.models import StepExecution
from deployments.plan import PlannedStep
from deployments.preview.memories import StageMemory
from pipelines.completion.deferred_expressions import filled_in
from steps.actions.base import Action
from steps.expressions import BadExpressionError
from steps.kinds.base import BadStepError, step_kind


class OnlyInARun(Exception):
    """What a step names is known to a run alone."""


NOT_PROVISIONED = (
    "Where this deploys is known once the infrastructure is provisioned, so a preview does not say what this "
    "step would do."
)


def waits_for_place(step: StepExecution) -> bool:
    """Whether a step begins where nobody can look yet: behind a provisioner that has not run."""
    stage = step.stage
    return not stage.is_placed and step.position >= stage.provisioner_steps


def actions_now(shared: StageMemory, planned: PlannedStep, outputs: Mapping[str, Any]) -> list[Action]:
    """The actions of a step with what it names filled in. Raises `OnlyInARun` with a sentence."""
    step = planned.step
    if waits_for_place(step):
        raise OnlyInARun(NOT_PROVISIONED)
    if step.unfilled is None:
        return [action for _, action in planned.actions]
    kind = step_kind(step.type)
    steps = {**outputs, **shared.outputs()}
    values = {
        **known_values(shared.execution, shared.stage),
        "steps": steps,
        "execution": {"steps": steps, "id": str(shared.execution.pk)},
    }
    try:
        spec = {**step.spec, **filled_in(kind, step.unfilled, values)}
        return [action for unit in kind.units(spec) for action in unit.actions]
    except (BadExpressionError, BadStepError) as unknown:
        raise OnlyInARun(
            f"{unknown} A preview cannot know it, so it does not say what this step would do."
        ) from unknown
