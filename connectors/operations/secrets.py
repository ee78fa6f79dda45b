"""Creating, changing and deleting secrets; a value goes in and never comes out."""

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from connectors.models import Secret
from connectors.operations.naming import check_identifier, clean_name, still_used, taken
from guards.limits import SECRET_BYTES
from guards.text import size_fault, text_fault
from rbac.audit import record
from rbac.models import Scope, User
from rbac.policy import require
from web.problems import BadInput

# A shorter value could not be masked in a log without hiding half of the log.
FEWEST_CHARACTERS = 6


def create_secret(*, actor: User, scope: Scope, identifier: str, name: str, value: str) -> Secret:
    """Keep a new secret. Raises `BadInput`, or `Conflict` if the identifier is taken."""
    require(actor, "core_secret_edit", scope)
    check_identifier(identifier)
    _check_value(value)
    secret = Secret(scope=scope, identifier=identifier, name=clean_name(name), value=value)
    try:
        with transaction.atomic():
            secret.save()
            record(actor=actor, action="secret.create", thing=secret, after=_shown(secret))
    except IntegrityError as exc:
        raise taken("secret", identifier) from exc
    return secret


def update_secret(
    *, actor: User, secret: Secret, name: str | None = None, value: str | None = None
) -> Secret:
    """Rename a secret or replace its value; connectors that use it use the new one with their next call."""
    require(actor, "core_secret_edit", secret)
    before = _shown(secret)
    changed = ["updated_at"]
    if name is not None:
        secret.name = clean_name(name)
        changed.append("name")
    if value is not None:
        _check_value(value)
        secret.value = value
        changed.append("value")
    with transaction.atomic():
        secret.save(update_fields=changed)
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


def _shown(secret: Secret) -> dict[str, str]:
    return {"identifier": secret.identifier, "name": secret.name}
