"""Secret values of an execution: lists for redaction, and injection into calls."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from django.db.models import Q

from aws.apis import cloudformation
from connectors.models import Secret
from connectors.queries import SecretNotFound, find_secret
from connectors.secret_expressions import parse_secret_reference
from connectors.secret_managers.base import SecretUnreadable
from connectors.secret_values import read_secret_value
from delegates.task_owners import TaskPayload
from deployments.journal.referenced_secrets import read_referenced_secret
from deployments.journal.runtime import DirectAwsAccess
from deployments.models import Execution, StageExecution, StepExecution
from guards.masks import HidingMask, SecretMask
from pipelines.definition import step_references
from rbac.models import Scope
from steps.kinds.registry import get_step_kind, get_step_kinds


def list_stage_secrets(
    stage: StageExecution, steps: Iterable[StepExecution] | None = None
) -> tuple[str, ...]:
    """Return the values to redact in every line of a stage.

    `steps` are the loaded steps of its execution, if any. Raises `SecretUnreadable`.
    """
    logins = filter(None, (stage.connector.secret, stage.connector.session_token))
    own = (_read(secret, stage.execution) for secret in logins)
    inputs = (value for value in stage.execution.secret_input_values.values() if value)
    return (*own, *inputs, *_list_step_secrets(stage, steps))


def _list_step_secrets(stage: StageExecution, steps: Iterable[StepExecution] | None) -> Iterator[str]:
    """Yield secret outputs, and the secrets of steps whose systems may return them.

    AWS shows parameters of stacks, and programs that create infrastructure print their variables.
    """
    if stage.execution_id is None or stage.pk is None:
        return
    exposing_types = _list_exposing_types()
    if steps is None:
        rows = StepExecution.objects.filter(stage__execution=stage.execution_id)
        steps = rows.exclude(~Q(type__in=exposing_types), secret_outputs="")
    for step in steps:
        if step.type not in exposing_types and not step.secret_outputs:
            continue
        yield from step.secret_output_values.values()
        for reference in (
            get_step_kind(step.type).list_secret_references(step.spec) if step.type in exposing_types else ()
        ):
            with suppress(SecretNotFound):
                yield _read(find_secret(stage.execution.scope, reference), stage.execution)


def build_stage_mask(
    stage: StageExecution,
    *,
    steps: Iterable[StepExecution] | None = None,
    params: Mapping[str, Any] = MappingProxyType({}),
) -> SecretMask:
    """Return the mask of a stage and of the secrets in task parameters; missing secrets are skipped.

    It hides everything while one of the values cannot be read.
    """
    try:
        return SecretMask(
            (*list_stage_secrets(stage, steps), *_list_parameter_secrets(stage.execution, params))
        )
    except SecretUnreadable as unreadable:
        return HidingMask(str(unreadable))


def build_execution_mask(
    execution: Execution, params: Mapping[str, Any] = MappingProxyType({})
) -> SecretMask:
    """Return the mask of all stages of an execution, and of the secrets in task parameters.

    It hides everything while one of the values cannot be read, and after one of the secrets was deleted.
    """
    stages = execution.stages.select_related("connector__secret", "connector__session_token")
    try:
        for reference in _list_references(execution, params):
            find_secret(execution.scope, reference)
        values = [value for stage in stages for value in list_stage_secrets(stage)]
        return SecretMask((*values, *_list_parameter_secrets(execution, params)))
    except (SecretNotFound, SecretUnreadable) as unreadable:
        return HidingMask(str(unreadable))


def _list_references(execution: Execution, params: Mapping[str, Any]) -> Iterator[str]:
    yield from map(str, (params.get("secrets") or {}).values())
    for step in StepExecution.objects.filter(stage__execution=execution, type__in=_list_exposing_types()):
        yield from get_step_kind(step.type).list_secret_references(step.spec)


def _list_exposing_types() -> list[str]:
    """Return the types of steps whose systems may return secrets."""
    kinds = get_step_kinds().items()
    return [name for name, kind in kinds if kind.provisions or kind.sends_secrets_to_aws]


def _list_parameter_secrets(execution: Execution, params: Mapping[str, Any]) -> Iterator[str]:
    for reference in (params.get("secrets") or {}).values():
        with suppress(SecretNotFound):
            yield _read(find_secret(execution.scope, str(reference)), execution)


def _read(secret: Secret, execution: Execution) -> str:
    return read_secret_value(secret, reader=f"execution {execution.pk} of {execution.scope}")


def add_masks(payload: TaskPayload, secrets: Sequence[str]) -> TaskPayload:
    """Return the payload with a mask for each stage secret in its parameters; an agent gets no others.

    They come from expressions: outputs of earlier steps, and inputs of the run.
    """
    text = json.dumps(payload.params, ensure_ascii=False, default=str)
    unmasked = dict.fromkeys(secret for secret in secrets if secret not in payload.mask)
    return replace(
        payload,
        mask=(
            *payload.mask,
            *(secret for secret in unmasked if SecretMask((secret,)).mask_text(text) != text),
        ),
    )


@dataclass(frozen=True)
class _SecretInjector:
    """AWS access that injects secret values into its calls."""

    aws_access: DirectAwsAccess
    step: StepExecution = field(repr=False)
    scope: Scope = field(repr=False)

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return self.aws_access.call(
            service, operation, inject_secrets(self.step, self.scope, service, params)
        )


def add_secret_injection(
    aws_access: DirectAwsAccess, service: str, step: StepExecution, scope: Scope
) -> DirectAwsAccess:
    """Return the access for calls of a service, with secret injection if the service needs it."""
    return _SecretInjector(aws_access, step, scope) if service == cloudformation.SERVICE else aws_access


def inject_secrets(
    step: StepExecution, scope: Scope, service: str, params: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the parameters with the values of secrets that the spec of the step names.

    Who ran the step has access to those alone. Another text that reads as a reference, from an input or from
    AWS, stays. Raises `Undelivered` if a secret is missing.
    """
    if service != cloudformation.SERVICE or "Parameters" not in params:
        return dict(params)
    references = step_references.list_step_secrets(step.type, step.spec)
    parameters = [_inject_secret(scope, references, parameter) for parameter in params["Parameters"]]
    return {**params, "Parameters": parameters}


def _inject_secret(scope: Scope, references: Collection[str], parameter: Mapping[str, Any]) -> dict[str, Any]:
    reference = parse_secret_reference(str(parameter.get("ParameterValue", "")))
    if reference not in references:
        return dict(parameter)
    return {**parameter, "ParameterValue": read_referenced_secret(scope, reference)}
