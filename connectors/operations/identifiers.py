"""Validation of names and identifiers, and conflicts of named resources."""

from django.core.exceptions import ValidationError
from django.db.models import Model, ProtectedError

from guards.limits import NAME_CHARACTERS
from guards.text import find_name_problem
from rbac.models.scopes import validate_identifier
from web.http.problems import BadInput, Conflict


def validate_name(name: str) -> str:
    """Return the name without surrounding spaces. Raises `BadInput` if no printable character is left."""
    cleaned = name.strip()
    if fault := find_name_problem(cleaned, NAME_CHARACTERS):
        raise BadInput(fault.display_message, errors=[{"path": "name", "message": fault.display_message}])
    return cleaned


def require_valid_identifier(identifier: str) -> None:
    """Raise `BadInput` if the identifier breaks the pattern."""
    try:
        validate_identifier(identifier)
    except ValidationError as exc:
        raise BadInput(exc.messages[0], errors=[{"path": "identifier", "message": exc.messages[0]}]) from exc


def build_identifier_conflict(kind: str, identifier: str) -> Conflict:
    """Return the refusal of an identifier that the scope already has."""
    article = "an" if kind[0] in "aeiou" else "a"
    used = f"There is already {article} {kind} with the identifier {identifier} here."
    return Conflict(f"{used} Enter another identifier.")


def build_in_use_conflict(thing: Model, problem: ProtectedError) -> Conflict:
    """Return the refusal to delete something that others point at."""
    users = sorted({f"{row._meta.verbose_name} {row}" for row in problem.protected_objects})
    names = ", ".join(users[:5]) + (f" and {len(users) - 5} more" if len(users) > 5 else "")
    return Conflict(f"{thing} is still in use by {names}. Remove these references first.")
