"""Operations on secrets: create, update, delete."""

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError
from django.utils import timezone

from connectors.models import Secret
from connectors.operations.identifiers import (
    build_identifier_conflict,
    build_in_use_conflict,
    require_valid_identifier,
    validate_name,
)
from guards.limits import PATH_PART_CHARACTERS, SECRET_BYTES
from guards.masks import MIN_SECRET_CHARACTERS
from guards.text import find_size_problem, find_text_problem
from rbac.audit import record_audit_entry
from rbac.models import Scope, User
from rbac.policy import require
from web.http.problems import BadInput

# A shorter value could not be masked in a log without hiding half of the log.


def create_secret(
    *, actor: User, scope: Scope, identifier: str, name: str, value: str, file_name: str = ""
) -> Secret:
    """Create a secret; `file_name` is set if it was uploaded.

    Raises `BadInput`, or `Conflict` if the identifier is taken.
    """
    require(actor, "core_secret_edit", scope)
    require_valid_identifier(identifier)
    _validate_value(value)
    secret = Secret(scope=scope, identifier=identifier, name=validate_name(name), value=value)
    _set_value(secret, value, file_name)
    try:
        with transaction.atomic():
            secret.save()
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
) -> Secret:
    """Rename a secret or replace its value; its connectors use the new value in their next call.

    The last test results of these connectors are cleared.
    """
    require(actor, "core_secret_edit", secret)
    before = _build_audit_values(secret)
    changed = ["updated_at"]
    if name is not None:
        secret.name = validate_name(name)
        changed.append("name")
    if value is not None:
        _validate_value(value)
        _set_value(secret, value, file_name)
        secret.version += 1
        secret.rotated_at = timezone.now()
        changed += ["value", "kind", "file_name", "version", "rotated_at"]
    with transaction.atomic():
        secret.save(update_fields=changed)
        if value is not None:
            _clear_connector_tests(secret)
        after = _build_audit_values(secret) | {"value_changed": value is not None}
        record_audit_entry(actor=actor, action="secret.update", thing=secret, before=before, after=after)
    return secret


def delete_secret(*, actor: User, secret: Secret) -> None:
    """Delete a secret. Raises `Conflict` if a connector uses it."""
    require(actor, "core_secret_delete", secret)
    try:
        with transaction.atomic():
            record_audit_entry(
                actor=actor, action="secret.delete", thing=secret, before=_build_audit_values(secret)
            )
            secret.delete()
    except ProtectedError as exc:
        raise build_in_use_conflict(secret, exc) from exc


def _validate_value(value: str) -> None:
    if len(value) < MIN_SECRET_CHARACTERS:
        message = f"A secret has at least {MIN_SECRET_CHARACTERS} characters."
        raise BadInput(message, errors=[{"path": "value", "message": message}])
    if fault := find_text_problem(value) or find_size_problem(value, SECRET_BYTES):
        raise BadInput(
            f"A secret is a text: {fault.display_message}", errors=[fault.to_json() | {"path": "value"}]
        )


def _set_value(secret: Secret, value: str, file_name: str) -> None:
    if file_name and (len(file_name) > PATH_PART_CHARACTERS or not file_name.isprintable()):
        message = f"The name of a file has {int(PATH_PART_CHARACTERS)} printable characters at most."
        raise BadInput(message, errors=[{"path": "file", "message": message}])
    secret.value, secret.file_name = value, file_name
    secret.kind = Secret.Kind.FILE if file_name else Secret.Kind.TEXT


def _clear_connector_tests(secret: Secret) -> None:
    # Through save, not update: a changed moment gives the connector another door.
    for connector in secret.connectors.all():
        connector.clear_test_result()
        connector.save()


def _build_audit_values(secret: Secret) -> dict[str, str | int]:
    return {
        "identifier": secret.identifier,
        "name": secret.name,
        "kind": secret.kind,
        "version": secret.version,
    }
