"""What of a call's parameters a person may see: names and shapes, not the values of environments."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from django.db.models import Q

from connectors.secrets import SecretMissing, find_secret
from delegates.owners import Payload
from deployments.models import StageExecution, StepExecution
from guards.masks import Mask
from rbac.models import Scope
from steps.kinds.base import known_steps, step_kind

HIDDEN = "•••"
_VALUES_UNDER = ("environment", "environmentFiles", "files", "hcl", "headers", "inputs")
_WHOLE = ("clientToken", "ClientRequestToken", "logUrl")
_NEVER = ("ParameterValue",)
_LONG = ("TemplateBody",)


def secrets_of(stage: StageExecution, steps: Iterable[StepExecution] | None = None) -> tuple[str, ...]:
    """The values that no line of a stage may show.

    `steps` are all of its execution, where they are loaded.
    """
    secret = stage.connector.secret
    own = (secret.value,) if secret is not None else ()
    hidden = (value for value in stage.execution.hidden_inputs.values() if value)
    return (*own, *hidden, *_of_steps(stage, steps))


def _of_steps(stage: StageExecution, steps: Iterable[StepExecution] | None) -> Iterator[str]:
    """The outputs that are secrets, and those that steps hand to who may say them again.

    AWS shows parameters of stacks, and programs that make infrastructure print what they are given.
    """
    if stage.execution_id is None or stage.pk is None:
        return
    kinds = known_steps().items()
    handing = [name for name, kind in kinds if kind.provisions or kind.hands_secrets_to_aws]
    if steps is None:
        rows = StepExecution.objects.filter(stage__execution=stage.execution_id)
        steps = rows.exclude(~Q(type__in=handing), secret_outputs="")
    for step in steps:
        if step.type not in handing and not step.secret_outputs:
            continue
        yield from step.hidden_outputs.values()
        for reference in step_kind(step.type).secrets_of(step.spec) if step.type in handing else ():
            with suppress(SecretMissing):
                yield find_secret(stage.execution.scope, reference).value


def secrets_given(scope: Scope, params: Mapping[str, Any]) -> tuple[str, ...]:
    """The values of the secrets that parameters of work name, as far as they are there."""
    found = []
    for reference in (params.get("secrets") or {}).values():
        with suppress(SecretMissing):
            found.append(find_secret(scope, str(reference)).value)
    return tuple(found)


def with_masks(payload: Payload, secrets: Sequence[str]) -> Payload:
    """The same, with those of the secrets to be hidden that stand in it: an agent learns no others.

    They came in by expressions: outputs of earlier steps, and inputs of the run.
    """
    said = json.dumps(payload.params, ensure_ascii=False, default=str)
    new = dict.fromkeys(one for one in secrets if one not in payload.mask)
    return replace(payload, mask=(*payload.mask, *(one for one in new if Mask((one,)).text(said) != said)))


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
    if key in _NEVER:
        return HIDDEN
    if key in _LONG and isinstance(value, str):
        return f"{len(value):,} characters"
    return mask.text(value) if isinstance(value, str) else value
