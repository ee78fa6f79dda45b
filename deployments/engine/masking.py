"""What of a call's parameters a person may see: names and shapes, not the values of environments."""

from collections.abc import Mapping
from typing import Any

from deployments.models import StageExecution, StepExecution
from guards.masks import Mask

HIDDEN = "•••"
_VALUES_UNDER = ("environment", "environmentFiles", "files", "hcl", "headers", "inputs")
_WHOLE = ("clientToken", "logUrl")


def secrets_of(stage: StageExecution) -> tuple[str, ...]:
    """The values that no line of a stage may show."""
    secret = stage.connector.secret
    own = (secret.value,) if secret is not None else ()
    hidden = (value for value in stage.execution.hidden_inputs.values() if value)
    return (*own, *hidden, *_secret_outputs(stage))


def _secret_outputs(stage: StageExecution) -> tuple[str, ...]:
    if stage.execution_id is None or stage.pk is None:
        return ()
    steps = StepExecution.objects.filter(stage__execution=stage.execution_id).exclude(secret_outputs="")
    return tuple(value for step in steps for value in step.hidden_outputs.values())


def preview(params: Mapping[str, Any], mask: Mask) -> dict[str, Any]:
    """The parameters with every environment value and every known secret hidden; secrets' ARNs stay."""
    return {key: _masked(key, value, mask) for key, value in params.items() if key not in _WHOLE}


def _masked(key: str, value: Any, mask: Mask) -> Any:
    if isinstance(value, Mapping):
        if key in _VALUES_UNDER:
            return dict.fromkeys(value, HIDDEN)
        return {name: _masked(name, item, mask) for name, item in value.items()}
    if isinstance(value, list | tuple):
        if key in _VALUES_UNDER:
            return [{**item, "value": HIDDEN} if isinstance(item, Mapping) else HIDDEN for item in value]
        return [_masked(key, item, mask) for item in value]
    return mask.text(value) if isinstance(value, str) else value
