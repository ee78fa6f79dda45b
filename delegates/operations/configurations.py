"""Operations on delegate configurations: create, update, apply, delete."""

import hashlib
from collections.abc import Sequence
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from connectors.operations.identifiers import (
    build_identifier_conflict,
    require_valid_identifier,
    validate_name,
)
from delegates.live import publish_delegates_changed
from delegates.models import Delegate, DelegateConfiguration, DelegateTask
from delegates.operations.configuration_secrets import require_secret_access, require_usable_secrets
from delegates.protocol.notices import notify_configuration
from delegates.queries.configurations import list_delegate_environments
from guards.limits import SCRIPT_BYTES, SCRIPT_SECONDS
from guards.text import find_control_problem, find_size_problem
from rbac.audit import record_audit_entry
from rbac.models import Scope, User
from rbac.policy import require
from web.http.problems import BadInput, Conflict

EDIT = "core_delegateconfiguration_edit"
DELETE = "core_delegateconfiguration_delete"
EDIT_DELEGATE = "core_delegate_edit"
FIELDS = ("name", "script", "timeout_seconds", "requires_approval", "environments", "task_kinds")


def create_configuration(
    *, actor: User, scope: Scope, identifier: str, name: str, **values: Any
) -> DelegateConfiguration:
    """Create a configuration.

    `values` are `script`, `timeout_seconds`, `requires_approval`, `environments` and `task_kinds`. Raises
    `BadInput`, `MissingAccess` to a secret of the script, or `Conflict` if the identifier is taken.
    """
    require(actor, EDIT, scope)
    require_valid_identifier(identifier)
    made = DelegateConfiguration(scope=scope, identifier=identifier)
    _apply_values(actor, made, {"name": name, **values})
    try:
        with transaction.atomic():
            made.save()
            record_audit_entry(
                actor=actor,
                action="delegateconfiguration.create",
                thing=made,
                after=_build_audit_values(made),
            )
    except IntegrityError as exc:
        raise build_identifier_conflict("configuration", identifier) from exc
    return made


def update_configuration(*, actor: User, configuration: DelegateConfiguration, **values: Any) -> None:
    """Update the given fields of a configuration; its delegates run a changed script.

    Raises `BadInput`, or `MissingAccess` to a secret of a changed script.
    """
    require(actor, EDIT, configuration)
    before = _build_audit_values(configuration)
    _apply_values(actor, configuration, values)
    with transaction.atomic():
        configuration.save(update_fields=[*FIELDS, "updated_at"])
        after = _build_audit_values(configuration)
        record_audit_entry(
            actor=actor,
            action="delegateconfiguration.update",
            thing=configuration,
            before=before,
            after=after,
        )
        if before != after:
            notify_configuration(configuration.delegates.values_list("pk", flat=True))


def apply_configuration(
    *, actor: User, configuration: DelegateConfiguration, delegates: Sequence[Delegate]
) -> list[Delegate]:
    """Assign a configuration to delegates, and return the changed ones (R055, R058).

    Changes none, and raises `BadInput` if the configuration is not at or above each delegate, or
    `MissingAccess` to a secret of its script.
    """
    for delegate in delegates:
        require(actor, EDIT_DELEGATE, delegate)
        if configuration.scope.path not in delegate.scope.ancestor_paths():
            message = (
                f"{configuration} is in {configuration.scope}. Use a configuration in the scope of "
                f"{delegate} or above."
            )
            raise BadInput(message, errors=[{"path": "delegates", "message": message}])
    require_secret_access(actor, configuration, path="delegates")
    changed = [row for row in delegates if row.configuration_id != configuration.pk]
    with transaction.atomic():
        for delegate in changed:
            before = {"configuration": str(delegate.configuration) if delegate.configuration else None}
            delegate.configuration = configuration
            delegate.save(update_fields=["configuration", "updated_at"])
            after = {"configuration": str(configuration)}
            record_audit_entry(
                actor=actor, action="delegate.update", thing=delegate, before=before, after=after
            )
        notify_configuration(row.pk for row in changed)
        publish_delegates_changed(*(row.pk for row in changed))
    return changed


def delete_configuration(*, actor: User, configuration: DelegateConfiguration) -> None:
    """Delete a configuration and its runs. Raises `Conflict` for the primary one, or one in use."""
    require(actor, DELETE, configuration)
    if configuration.is_primary:
        raise Conflict("The primary configuration cannot be deleted. Clear its script to disable it.")
    try:
        with transaction.atomic():
            before = _build_audit_values(configuration)
            record_audit_entry(
                actor=actor, action="delegateconfiguration.delete", thing=configuration, before=before
            )
            configuration.delete()
    except ProtectedError as exc:
        number = len(exc.protected_objects)
        subject = f"{number} delegate{' has' if number == 1 else 's have'}"
        raise Conflict(f"{subject} {configuration}. Assign another configuration first.") from exc


def _apply_values(actor: User, configuration: DelegateConfiguration, values: dict[str, Any]) -> None:
    if "name" in values:
        values = {**values, "name": validate_name(values["name"])}
    if "script" in values:
        values = {**values, "script": _clean_script(actor, configuration, values["script"])}
    if "environments" in values:
        values = {**values, "environments": _clean_environments(actor, configuration, values["environments"])}
    if "task_kinds" in values:
        values = {**values, "task_kinds": _clean_task_kinds(values["task_kinds"])}
    seconds = values.get("timeout_seconds", configuration.timeout_seconds)
    if not 1 <= seconds <= SCRIPT_SECONDS:
        raise _build_refusal("timeout_seconds", f"A script may run for 1 to {SCRIPT_SECONDS}.")
    for name, value in values.items():
        setattr(configuration, name, value)


def _clean_script(actor: User, configuration: DelegateConfiguration, script: str) -> str:
    """Return the script with the line ends of the machine that runs it: a browser sends those of another.

    Who changes a script needs access to all of its secrets, because the script decides about their use.
    """
    cleaned = script.replace("\r\n", "\n")
    if fault := find_control_problem(cleaned) or find_size_problem(cleaned, SCRIPT_BYTES):
        raise BadInput(
            f"The script is not valid: {fault.display_message}", errors=[fault.to_json() | {"path": "script"}]
        )
    if cleaned != configuration.script:
        require_usable_secrets(
            actor, configuration.scope, cleaned, path="script", is_primary=configuration.is_primary
        )
    return cleaned


def _clean_environments(actor: User, configuration: DelegateConfiguration, paths: Sequence[str]) -> list[str]:
    """Return the paths of existing environments; those that are selected already may stay."""
    new_paths = set(paths) - set(configuration.environments)
    if new_paths:
        visible = list_delegate_environments(configuration.scope, actor)
        new_paths -= {environment.path for environment in visible}
    if new_paths:
        path = min(new_paths)
        message = (
            f"Environment {path} does not exist in {configuration.scope.path} or below, or you have no "
            "access to it."
        )
        raise _build_refusal("environments", message)
    return sorted(set(paths))


def _clean_task_kinds(kinds: Sequence[str]) -> list[str]:
    if unknown := set(kinds) - set(DelegateTask.LIMITABLE):
        choices = ", ".join(DelegateTask.LIMITABLE)
        raise _build_refusal("task_kinds", f"{min(unknown)} is not a kind of task. Use {choices}.")
    return [str(kind) for kind in DelegateTask.LIMITABLE if kind in kinds]


def _build_refusal(path: str, message: str) -> BadInput:
    return BadInput(message, errors=[{"path": path, "message": message}])


def _build_audit_values(configuration: DelegateConfiguration) -> dict[str, Any]:
    """Return the audited values; of the script, which may contain secrets, only the fact of a change."""
    return {
        "identifier": configuration.identifier,
        "name": configuration.name,
        "script_sha256": hashlib.sha256(configuration.script.encode()).hexdigest(),
        "timeout_seconds": configuration.timeout_seconds,
        "requires_approval": configuration.requires_approval,
        "environments": list(configuration.environments),
        "task_kinds": list(configuration.task_kinds),
    }
