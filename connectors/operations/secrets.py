"""Creating, changing and deleting secrets; a value goes in and never comes out."""

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError
from django.utils import timezone

from connectors.models import Secret
from connectors.operations.naming import check_identifier, clean_name, still_used, taken
from guards.limits import PATH_PART_CHARACTERS, SECRET_BYTES
from guards.masks import FEWEST_CHARACTERS
from guards.text import size_fault, text_fault
from rbac.audit import record
from rbac.models import Scope, User
from rbac.policy import require
from web.problems import BadInput

# A shorter value could not be masked in a log without hiding half of the log.


def create_secret(
    *, actor: User, scope: Scope, identifier: str, name: str, value: str, file_name: str = ""
) -> Secret:
    """Keep a new secret; one with a `file_name` came as a file.

    Raises `BadInput`, or `Conflict` if the identifier is taken.
    """
    require(actor, "core_secret_edit", scope)
    check_identifier(identifier)
    _check_value(value)
    secret = Secret(scope=scope, identifier=identifier, name=clean_name(name), value=value)
    _fill_in(secret, value, file_name)
    try:
        with transaction.atomic():
            secret.save()
            record(actor=actor, action="secret.create", thing=secret, after=_shown(secret))
    except IntegrityError as exc:
        raise taken("secret", identifier) from exc
    return secret


def update_secret(
    *,
    actor: User,
    secret: Secret,
    name: str | None = None,
    value: str | None = None,
    file_name: str = "",
) -> Secret:
    """Rename a secret or replace its value; connectors that use it use the new one with their next call.

    What they were told about the old value is forgotten: their last test no longer says anything.
    """
    require(actor, "core_secret_edit", secret)
    before = _shown(secret)
    changed = ["updated_at"]
    if name is not None:
        secret.name = clean_name(name)
        changed.append("name")
    if value is not None:
        _check_value(value)
        _fill_in(secret, value, file_name)
        secret.version += 1
        secret.rotated_at = timezone.now()
        changed += ["value", "kind", "file_name", "version", "rotated_at"]
    with transaction.atomic():
        secret.save(update_fields=changed)
        if value is not None:
            _forget_tests(secret)
        after = _shown(secret) | {"value_changed": value is not None}
        record(actor=actor, action="secret.update", thing=secret, before=before, after=after)
    return secret


def delete_secret(*, actor: User, secret: Secret) -> None:
    """Forget a secret. Raises `Conflict` while a connector uses it."""
    require(actor, "core_secret_delete", secret)
    try:
        with transaction.atomic():
            record(actor=actor, action="secret.delete", thing=secret, before=_shown(secret))
            secret.delete()
    except ProtectedError as exc:
        raise still_used(secret, exc) from exc


def _check_value(value: str) -> None:
    if len(value) < FEWEST_CHARACTERS:
        message = f"A secret has at least {FEWEST_CHARACTERS} characters."
        raise BadInput(message, errors=[{"path": "value", "message": message}])
    if fault := text_fault(value) or size_fault(value, SECRET_BYTES):
        raise BadInput(f"A secret is a text: {fault.sentence}", errors=[fault.as_error() | {"path": "value"}])


def _fill_in(secret: Secret, value: str, file_name: str) -> None:
    if file_name and (len(file_name) > PATH_PART_CHARACTERS or not file_name.isprintable()):
        message = f"The name of a file has {int(PATH_PART_CHARACTERS)} printable characters at most."
        raise BadInput(message, errors=[{"path": "file", "message": message}])
    secret.value, secret.file_name = value, file_name
    secret.kind = Secret.Kind.FILE if file_name else Secret.Kind.TEXT


def _forget_tests(secret: Secret) -> None:
    # Through save, not update: a changed moment gives the connector another door.
    for connector in secret.connectors.all():
        connector.forget_test()
        connector.save()


def _shown(secret: Secret) -> dict[str, str | int]:
    return {
        "identifier": secret.identifier,
        "name": secret.name,
        "kind": secret.kind,
        "version": secret.version,
    }
