"""Operations on triggers: create, update, enable, rotate the secret, delete, redeliver."""

import re
import secrets
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from catalog.operations import TAG_PATTERN
from catalog.operations.resources import increment_version
from connectors.operations.identifiers import (
    build_identifier_conflict,
    require_valid_identifier,
    validate_name,
)
from guards.limits import EXPRESSION_CHARACTERS, TRIGGER_CONDITIONS, TRIGGER_FIRING_DAYS, TRIGGERS
from guards.text import find_text_problem
from pipelines.models import Pipeline, Trigger, TriggerFiring
from pipelines.operations.pipelines import list_pipeline_variables
from pipelines.tasks import request_firings
from pipelines.triggers.base import TriggerEvent, TriggerKind
from pipelines.triggers.events import record_event
from pipelines.triggers.registry import find_kind, list_kinds
from pipelines.triggers.watches import update_watches
from rbac.audit import record_audit_entry
from rbac.models import ServiceAccount, User
from rbac.operations.escalation_checks import describe_lending_refusal
from rbac.policy import Principal, can, filter_visible, require
from steps.conditions import BadConditionError, parse_condition
from steps.expressions import find_paths, has_expression, is_path
from web.clock import get_database_time
from web.http.problems import BadInput, Conflict
from web.managed_resources import require_unmanaged

VIEW: Final = "core_pipeline_view"
EDIT: Final = "core_pipeline_edit"
EXECUTE: Final = "core_pipeline_execute"
# Who may create keys of a service account may act as it anyway.
ACT_AS: Final = "core_serviceaccount_manageapikey"
_PREFIX: Final = "slp_hook_"


@dataclass(frozen=True)
class TriggerSpec:
    """The fields of a trigger except its pipeline, identifier, kind and secret."""

    name: str
    spec: Mapping[str, Any] = field(default_factory=dict)
    service_account: ServiceAccount | None = None
    tag: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    conditions: Sequence[str] = ()
    is_enabled: bool = True


def list_triggers() -> "QuerySet[Trigger]":
    """Return the triggers of active pipelines, with the relations for permission checks."""
    rows = Trigger.objects.filter(pipeline__deleted_at=None).prefetch_related("watches")
    return rows.select_related("pipeline__scope", "service_account__scope").defer("secret", "pipeline__yaml")


def list_usable_accounts(pipeline: Pipeline, person: Principal) -> "QuerySet[ServiceAccount]":
    """Return the service accounts of the pipeline's scope and those above that a person may act as."""
    near = ServiceAccount.objects.filter(scope__path__in=pipeline.scope.ancestor_paths())
    return filter_visible(person, ACT_AS, near.select_related("scope", "user")).order_by("name", "pk")


def create_trigger(
    *, actor: User, pipeline: Pipeline, identifier: str, kind: str, spec: TriggerSpec
) -> tuple[Trigger, str]:
    """Create a trigger, and return it with its secret, which is never returned again ("" if it has none).

    Raises `BadInput`, or `Conflict` for a used identifier or too many triggers.
    """
    require(actor, EDIT, pipeline)
    require_valid_identifier(identifier)
    trigger = Trigger(pipeline=pipeline, identifier=identifier, kind=require_kind(kind).identifier)
    _apply_spec(trigger, spec, actor)
    if Trigger.objects.filter(pipeline=pipeline).count() >= TRIGGERS:
        raise Conflict(f"A pipeline can have {TRIGGERS}. Delete one that is no longer needed.")
    secret = trigger.secret = _generate_secret() if require_kind(kind).has_address else ""
    try:
        with transaction.atomic():
            trigger.save()
            update_watches(trigger)
            record_audit_entry(
                actor=actor, action="trigger.create", thing=trigger, after=build_audit_values(trigger)
            )
    except IntegrityError as exc:
        raise build_identifier_conflict("trigger", identifier) from exc
    return trigger, secret


def update_trigger(
    *, actor: User, trigger: Trigger, spec: TriggerSpec, version: int | None = None
) -> Trigger:
    """Replace all fields of a trigger except its identifier, kind and secret.

    Raises `BadInput`, and `VersionConflict` if `version` is given and outdated.
    """
    require(actor, EDIT, trigger)
    require_unmanaged(trigger)
    before = build_audit_values(trigger)
    _apply_spec(trigger, spec, actor)
    with transaction.atomic():
        increment_version(trigger, version)
        trigger.save(
            update_fields=[
                "name", "spec", "tag", "inputs", "conditions", "service_account", "is_enabled", "due_at",
                "updated_at",
            ]
        )  # fmt: skip
        update_watches(trigger)
        record_audit_entry(
            actor=actor,
            action="trigger.update",
            thing=trigger,
            before=before,
            after=build_audit_values(trigger),
        )
    return trigger


def set_enabled(*, actor: User, trigger: Trigger, is_enabled: bool) -> Trigger:
    """Enable or disable a trigger. A disabled one ignores its events."""
    require(actor, EDIT, trigger)
    require_unmanaged(trigger)
    with transaction.atomic():
        increment_version(trigger, None)
        # Somebody else may have saved other settings since it was loaded.
        trigger.refresh_from_db(fields=["spec", "is_enabled"])
        before = {"is_enabled": trigger.is_enabled}
        trigger.is_enabled = is_enabled
        trigger.due_at = _compute_due_at(trigger, get_database_time())
        trigger.save(update_fields=["is_enabled", "due_at", "updated_at"])
        update_watches(trigger)
        record_audit_entry(
            actor=actor,
            action="trigger.update",
            thing=trigger,
            before=before,
            after={"is_enabled": is_enabled},
        )
    return trigger


def rotate_secret(*, actor: User, trigger: Trigger) -> str:
    """Replace the secret of a trigger, and return the new one. The old one is refused from now on."""
    require(actor, EDIT, trigger)
    if not require_kind(trigger.kind).has_address:
        raise Conflict("Triggers of this kind have no secret.")
    secret = trigger.secret = _generate_secret()
    with transaction.atomic():
        increment_version(trigger, None)
        trigger.save(update_fields=["secret", "updated_at"])
        record_audit_entry(
            actor=actor,
            action="trigger.rotate_secret",
            thing=trigger,
            after={"identifier": trigger.identifier},
        )
    return secret


def delete_trigger(*, actor: User, trigger: Trigger) -> None:
    """Delete a trigger with its firings; its executions keep their cause."""
    require(actor, EDIT, trigger)
    require_unmanaged(trigger)
    with transaction.atomic():
        record_audit_entry(
            actor=actor, action="trigger.delete", thing=trigger, before=build_audit_values(trigger)
        )
        trigger.delete()


def redeliver(*, actor: User, firing: TriggerFiring) -> TriggerFiring:
    """Handle a stored event again with the current settings of its trigger, as a firing of its own.

    Raises `Conflict` if retention has emptied it.
    """
    require(actor, EXECUTE, firing.trigger.pipeline)
    kept_since = get_database_time() - timedelta(days=TRIGGER_FIRING_DAYS)
    kind = find_kind(firing.trigger.kind)
    if kind and kind.has_payload and not firing.payload and firing.received_at < kept_since:
        raise Conflict(f"The payload of this firing was deleted after {TRIGGER_FIRING_DAYS}.")
    key = f"redelivery:{uuid.uuid4()}"
    event = TriggerEvent(key, key, firing.summary, firing.values, firing.payload)
    with transaction.atomic():
        made, _ = record_event(firing.trigger, event, by=actor)
        transaction.on_commit(request_firings, robust=True)
        record_audit_entry(
            actor=actor,
            action="trigger.redeliver",
            thing=made,
            after={"trigger": firing.trigger.identifier, "firing": str(firing.pk)},
        )
    return made


def require_kind(identifier: str) -> TriggerKind:
    """Return a kind. Raises `BadInput` if there is none."""
    kind = find_kind(identifier)
    if kind is None:
        message = f"must be one of {', '.join(list_kinds())}"
        raise BadInput("There is no such kind of trigger.", errors=[{"path": "kind", "message": message}])
    return kind


def build_audit_values(trigger: Trigger) -> dict[str, Any]:
    """Return the audited values of a trigger, without its secret."""
    account = trigger.service_account
    return {
        "identifier": trigger.identifier,
        "name": trigger.name,
        "kind": trigger.kind,
        "spec": trigger.spec,
        "tag": trigger.tag,
        "inputs": trigger.inputs,
        "conditions": list(trigger.conditions),
        "service_account": f"{account.scope.path}/{account.identifier}" if account else None,
        "is_enabled": trigger.is_enabled,
    }


def _generate_secret() -> str:
    return f"{_PREFIX}{secrets.token_urlsafe(32)}"


def _apply_spec(trigger: Trigger, spec: TriggerSpec, actor: User) -> None:
    kind = require_kind(trigger.kind)
    problems = [
        *(kind.list_problems(spec.spec) or kind.list_reference_problems(spec.spec, trigger.pipeline, actor)),
        *_list_account_problems(trigger, spec.service_account, actor),
        *_list_condition_problems(kind, spec.conditions),
        *_list_mapping_problems(kind, trigger.pipeline, spec),
    ]
    if problems:
        raise BadInput("The trigger is not valid.", errors=problems)
    is_same = (trigger.spec, trigger.is_enabled) == (dict(spec.spec), spec.is_enabled)
    kept_due_at = trigger.due_at if is_same else None
    trigger.name = validate_name(spec.name)
    trigger.spec, trigger.tag, trigger.inputs = dict(spec.spec), spec.tag, dict(spec.inputs)
    trigger.conditions = list(spec.conditions)
    trigger.service_account = spec.service_account
    trigger.is_enabled = spec.is_enabled
    # A time that has come is not lost because somebody else changes the name.
    trigger.due_at = kept_due_at or _compute_due_at(trigger, get_database_time())


def _compute_due_at(trigger: Trigger, now: datetime) -> datetime | None:
    """Return when the kind looks for events next: what was missed before is not made up for."""
    return require_kind(trigger.kind).get_next_due(trigger.spec, now) if trigger.is_enabled else None


def _list_account_problems(
    trigger: Trigger, account: ServiceAccount | None, actor: User
) -> Iterator[dict[str, str]]:
    """Yield why the runs cannot have the rights of this account; a person may only lend what they have."""
    message, is_new = "", account is not None and trigger.service_account_id != account.pk
    if account is None:
        message = "Choose the service account whose permissions the runs have."
    elif is_new and not can(actor, ACT_AS, account):
        message = f"You need the permission {ACT_AS} on this service account."
    elif is_new and (refusal := describe_lending_refusal(actor, account)):
        message = refusal
    elif not can(account.user, EXECUTE, trigger.pipeline):
        message = f"This service account needs the permission {EXECUTE} on the pipeline."
    if message:
        yield {"path": "service_account", "message": message}


def _list_condition_problems(kind: TriggerKind, conditions: Sequence[str]) -> Iterator[dict[str, str]]:
    if len(conditions) > TRIGGER_CONDITIONS:
        yield {"path": "conditions", "message": f"may be {TRIGGER_CONDITIONS} at most"}
        return
    for text in conditions:
        try:
            paths = parse_condition(text).paths
        except BadConditionError as bad:
            yield {"path": "conditions", "message": f"{text}: {bad}"}
        else:
            if message := _find_path_problem(kind, paths):
                yield {"path": "conditions", "message": message}


def _list_mapping_problems(
    kind: TriggerKind, pipeline: Pipeline, spec: TriggerSpec
) -> Iterator[dict[str, str]]:
    variables = {variable.name: variable for variable in list_pipeline_variables(pipeline)}
    for name in spec.inputs:
        if name not in variables:
            known = ", ".join(sorted(variables)) or "none"
            yield {"path": f"inputs.{name}", "message": f"unknown variable; the pipeline has: {known}"}
        elif variables[name].is_secret:
            yield {"path": f"inputs.{name}", "message": "is a secret, which no event can set"}
    for path, value in (
        ("tag", spec.tag),
        *((f"inputs.{name}", value) for name, value in spec.inputs.items()),
    ):
        if message := _find_value_problem(kind, value):
            yield {"path": path, "message": message}
    if spec.tag and not has_expression(spec.tag) and not re.match(TAG_PATTERN, spec.tag):
        message = "Use up to 128 letters, digits, dots, dashes and underscores, or an expression."
        yield {"path": "tag", "message": message}


def _find_value_problem(kind: TriggerKind, value: Any) -> str:
    """Return the problem of a tag or an input, which may have expressions of the event; "" if it is valid."""
    if not isinstance(value, str | int | float | bool):
        return "must be a text, a number, true or false"
    if not isinstance(value, str):
        return ""
    if problem := find_text_problem(value):
        return problem.display_message
    if len(value) > EXPRESSION_CHARACTERS:
        return f"must have at most {EXPRESSION_CHARACTERS}"
    paths = [path for _, path in find_paths(value)]
    if has_expression(value) and not paths:
        return f"An expression has no end: write it as {_build_example(kind)}."
    return _find_path_problem(kind, paths)


def _find_path_problem(kind: TriggerKind, paths: Iterable[str]) -> str:
    """Return the problem of the first path that no event of a kind has, "" if there is none."""
    for path in paths:
        if not is_path(path) or not path.startswith("trigger."):
            return f"<+{path}> is not of the event: use {_build_example(kind)}."
        if not kind.has_payload and path.split(".")[1] == "payload":
            return (
                f"Events of this kind have no payload, so there is no <+{path}>: use {_build_example(kind)}."
            )
    return ""


def _build_example(kind: TriggerKind) -> str:
    return "<+trigger.payload.name>" if kind.has_payload else f"<+trigger.{next(iter(kind.values))}>"
