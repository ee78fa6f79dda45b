"""Operations on secrets: create, update, delete, test."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError, Q
from django.utils import timezone

from connectors.models import Connector, Secret
from connectors.operations.identifiers import (
    build_identifier_conflict,
    build_in_use_conflict,
    require_valid_identifier,
    validate_name,
)
from connectors.operations.references import require_usable_reference
from connectors.secret_managers.base import SecretReference, SecretUnreadable
from connectors.secret_values import fetch_secret_value
from connectors.usages import find_usages
from guards.limits import PATH_PART_CHARACTERS, SECRET_BYTES
from guards.masks import MIN_SECRET_CHARACTERS
from guards.text import find_size_problem, find_text_problem
from rbac.audit import record_audit_entry
from rbac.models import Scope, User
from rbac.policy import NotVisible, require
from web.http.problems import BadInput, ResourceInUse

_SOURCE_FIELDS: Final = (
    "value",
    "kind",
    "file_name",
    "manager",
    "manager_connector",
    "reference_path",
    "reference_key",
    "reference_version",
    "last_read_at",
    "last_read_by",
    "last_read_problem",
)
# A shorter value could not be masked in a log without hiding half of the log.

SecretListener = Callable[[Secret], None]
_listeners: list[SecretListener] = []


def register_secret_listener(listener: SecretListener) -> None:
    """Register a function that is called with a secret in the transaction of its new value or deletion.

    A deleted secret is still there when the function is called.
    """
    _listeners.append(listener)


def create_secret(
    *,
    actor: User,
    scope: Scope,
    identifier: str,
    name: str,
    value: str | None = None,
    file_name: str = "",
    reference: SecretReference | None = None,
) -> Secret:
    """Create a secret with a value or a reference; `file_name` is set if the value was uploaded.

    Raises `BadInput`, `MissingAccess` to the connector of the reference, or `Conflict` if the identifier is
    taken.
    """
    require(actor, "core_secret_edit", scope)
    require_valid_identifier(identifier)
    secret = Secret(scope=scope, identifier=identifier, name=validate_name(name), value="")
    if not _set_source(actor, secret, value, file_name, reference):
        message = "Enter a value, or a reference to a secret manager."
        raise BadInput(message, errors=[{"path": "value", "message": message}])
    try:
        with transaction.atomic():
            secret.save()
            _notify_listeners(secret)
            record_audit_entry(
                actor=actor, action="secret.create", thing=secret, after=_build_audit_values(secret)
            )
    except IntegrityError as exc:
        raise build_identifier_conflict("secret", identifier) from exc
    return secret


def update_secret(
    *,
    actor: User,
    secret: Secret,
    name: str | None = None,
    value: str | None = None,
    file_name: str = "",
    reference: SecretReference | None = None,
) -> Secret:
    """Rename a secret, or replace its value or reference; its connectors use the new one in their next call.

    The last test results of these connectors are cleared. Raises `NotVisible` if it was deleted meanwhile.
    """
    require(actor, "core_secret_edit", secret)
    before = _build_audit_values(secret)
    changed = ["updated_at"]
    if name is not None:
        secret.name = validate_name(name)
        changed.append("name")
    if is_new_source := _set_source(actor, secret, value, file_name, reference):
        secret.rotated_at = timezone.now()
        changed += [*_SOURCE_FIELDS, "version", "rotated_at"]
    with transaction.atomic():
        # Of two rotations at once, each has a version of its own.
        secret.version = _lock_version(secret) + is_new_source
        secret.save(update_fields=changed)
        if is_new_source:
            _clear_connector_tests(secret)
            _notify_listeners(secret)
        after = _build_audit_values(secret) | {"value_changed": is_new_source}
        record_audit_entry(actor=actor, action="secret.update", thing=secret, before=before, after=after)
    return secret


def delete_secret(*, actor: User, secret: Secret) -> None:
    """Delete a secret. Raises `Conflict` if something uses it."""
    require(actor, "core_secret_delete", secret)
    if usages := find_usages(secret, actor):
        raise ResourceInUse(f"{secret} is still in use by {usages}. Remove these references first.")
    try:
        with transaction.atomic():
            record_audit_entry(
                actor=actor, action="secret.delete", thing=secret, before=_build_audit_values(secret)
            )
            _notify_listeners(secret)
            secret.delete()
    except ProtectedError as exc:
        raise build_in_use_conflict(secret, exc) from exc


def _lock_version(secret: Secret) -> int:
    """Lock a secret until the transaction ends, and return its version. Raises `NotVisible` if it is gone."""
    # Not its key, which the save of a connector locks while it holds the row that a rotation saves later.
    rows = Secret.objects.select_for_update(no_key=True).filter(pk=secret.pk)
    version = rows.values_list("version", flat=True).first()
    if version is None:
        raise NotVisible(f"Somebody deleted {secret} meanwhile.")
    return version


def _validate_value(value: str) -> None:
    if len(value) < MIN_SECRET_CHARACTERS:
        message = f"A secret has at least {MIN_SECRET_CHARACTERS} characters."
        raise BadInput(message, errors=[{"path": "value", "message": message}])
    if fault := find_text_problem(value) or find_size_problem(value, SECRET_BYTES):
        raise BadInput(
            f"A secret is a text: {fault.display_message}", errors=[fault.to_json() | {"path": "value"}]
        )


def _set_source(
    actor: User, secret: Secret, value: str | None, file_name: str, reference: SecretReference | None
) -> bool:
    """Set the new value or reference, which replaces the current source; return whether there is one."""
    if value is not None and reference is not None:
        message = "Enter a value or a reference, not both."
        raise BadInput(message, errors=[{"path": "value", "message": message}])
    if reference is not None:
        require_usable_reference(actor, secret.scope, reference, secret if secret.pk else None)
        secret.kind, secret.value, secret.file_name = Secret.Kind.REFERENCE, "", ""
    elif value is not None:
        _validate_value(value)
        _set_value(secret, value, file_name)
    else:
        return False
    secret.manager = reference.manager if reference else ""
    secret.manager_connector = reference.connector if reference else None
    secret.reference_path = reference.path if reference else ""
    secret.reference_key = reference.key if reference else ""
    secret.reference_version = reference.version if reference else ""
    secret.last_read_at, secret.last_read_by, secret.last_read_problem = None, "", ""
    return True


def _set_value(secret: Secret, value: str, file_name: str) -> None:
    if file_name and (len(file_name) > PATH_PART_CHARACTERS or not file_name.isprintable()):
        message = f"The name of a file has {int(PATH_PART_CHARACTERS)} printable characters at most."
        raise BadInput(message, errors=[{"path": "file", "message": message}])
    secret.value, secret.file_name = value, file_name
    secret.kind = Secret.Kind.FILE if file_name else Secret.Kind.TEXT


def _notify_listeners(secret: Secret) -> None:
    for listener in _listeners:
        listener(secret)


def _clear_connector_tests(secret: Secret) -> None:
    # Through save, not update: a changed moment gives the connector another door.
    for connector in Connector.objects.filter(Q(secret=secret) | Q(session_token=secret)):
        connector.clear_test_result()
        # Only these columns: somebody may change the others at the same time.
        connector.save(
            update_fields=[
                "last_tested_at",
                "last_test_ok",
                "last_test_message",
                "last_test_report",
                "updated_at",
            ]
        )


def _build_audit_values(secret: Secret) -> dict[str, str | int]:
    values: dict[str, str | int] = {
        "identifier": secret.identifier,
        "name": secret.name,
        "kind": secret.kind,
        "version": secret.version,
    }
    if not secret.is_reference:
        return values
    return values | {
        "manager": secret.manager,
        "connector": str(secret.manager_connector),
        "path": secret.reference_path,
        "key": secret.reference_key,
        "manager_version": secret.reference_version,
    }


@dataclass(frozen=True)
class SecretTest:
    """Result of reading a secret: its length and the time that the read took, never the value."""

    ok: bool
    message: str
    characters: int | None
    milliseconds: int


def run_secret_test(*, actor: User, secret: Secret) -> SecretTest:
    """Read the value of a secret now, in its manager if it is a reference."""
    require(actor, "core_secret_access", secret)
    started = time.monotonic()
    characters, problem = None, ""
    try:
        characters = len(fetch_secret_value(secret, reader=f"test by {actor}"))
    except SecretUnreadable as unreadable:
        problem = str(unreadable)
    milliseconds = round((time.monotonic() - started) * 1000)
    test = SecretTest(
        ok=not problem,
        message=problem or f"Read {characters} characters in {milliseconds} ms.",
        characters=characters,
        milliseconds=milliseconds,
    )
    after = {"ok": test.ok, "message": test.message}
    record_audit_entry(actor=actor, action="secret.test", thing=secret, after=after)
    return test
