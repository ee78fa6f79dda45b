"""Secret values of an execution: listed for redaction, injected into calls."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from django.db.models import Q

from aws.apis import cloudformation
from aws.errors import Undelivered
from connectors.queries import SecretNotFound, find_secret
from delegates.task_owners import TaskPayload
from deployments.journal.runtime import DirectAwsAccess
from deployments.models import StageExecution, StepExecution
from guards.masks import SecretMask
from rbac.models import Scope
from steps.expressions import parse_secret_reference
from steps.kinds.registry import get_step_kind, get_step_kinds


def list_stage_secrets(
    stage: StageExecution, steps: Iterable[StepExecution] | None = None
) -> tuple[str, ...]:
    """Return the values that no line of a stage may show.

    `steps` are all of its execution, where they are loaded.
    """
    secret = stage.connector.secret
    own = (secret.value,) if secret is not None else ()
    hidden = (value for value in stage.execution.secret_input_values.values() if value)
    return (*own, *hidden, *_list_step_secrets(stage, steps))


def _list_step_secrets(stage: StageExecution, steps: Iterable[StepExecution] | None) -> Iterator[str]:
    """Yield the outputs that are secrets, and those that steps hand to who may say them again.

    AWS shows parameters of stacks, and programs that make infrastructure print what they are given.
    """
    if stage.execution_id is None or stage.pk is None:
        return
    kinds = get_step_kinds().items()
    handing = [name for name, kind in kinds if kind.provisions or kind.sends_secrets_to_aws]
    if steps is None:
        rows = StepExecution.objects.filter(stage__execution=stage.execution_id)
        steps = rows.exclude(~Q(type__in=handing), secret_outputs="")
    for step in steps:
        if step.type not in handing and not step.secret_outputs:
            continue
        yield from step.secret_output_values.values()
        for reference in (
            get_step_kind(step.type).list_secret_references(step.spec) if step.type in handing else ()
        ):
            with suppress(SecretNotFound):
                yield find_secret(stage.execution.scope, reference).value


def list_parameter_secrets(scope: Scope, params: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the values of the secrets that parameters of work name, as far as they are there."""
    found = []
    for reference in (params.get("secrets") or {}).values():
        with suppress(SecretNotFound):
            found.append(find_secret(scope, str(reference)).value)
    return tuple(found)


def add_masks(payload: TaskPayload, secrets: Sequence[str]) -> TaskPayload:
    """Return the same, with those of the secrets to be hidden that stand in it: an agent learns no others.

    They came in by expressions: outputs of earlier steps, and inputs of the run.
    """
    said = json.dumps(payload.params, ensure_ascii=False, default=str)
    new = dict.fromkeys(one for one in secrets if one not in payload.mask)
    return replace(
        payload, mask=(*payload.mask, *(one for one in new if SecretMask((one,)).mask_text(said) != said))
    )


@dataclass(frozen=True)
class _SecretInjector:
    """AWS access that adds the values of secrets to its calls."""

    aws_access: DirectAwsAccess
    scope: Scope = field(repr=False)

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return self.aws_access.call(service, operation, inject_secrets(self.scope, service, params))


def add_secret_injection(aws_access: DirectAwsAccess, service: str, scope: Scope) -> DirectAwsAccess:
    """Return the access for calls of a service, with secret values where it needs them."""
    return _SecretInjector(aws_access, scope) if service == cloudformation.SERVICE else aws_access


def inject_secrets(scope: Scope, service: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters as AWS gets them. Raises `Undelivered` where a secret is missing."""
    if service != cloudformation.SERVICE or "Parameters" not in params:
        return dict(params)
    return {**params, "Parameters": [_inject_secret(scope, one) for one in params["Parameters"]]}


def _inject_secret(scope: Scope, parameter: Mapping[str, Any]) -> dict[str, Any]:
    reference = parse_secret_reference(str(parameter.get("ParameterValue", "")))
    if not reference:
        return dict(parameter)
    try:
        return {**parameter, "ParameterValue": find_secret(scope, reference).value}
    except SecretNotFound as missing:
        raise Undelivered("SECRET_MISSING", str(missing)) from missing
