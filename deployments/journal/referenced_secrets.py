"""Values of secrets that the parameters of calls refer to."""

from typing import Final

from aws.errors import Undelivered
from connectors.queries import SecretNotFound, find_secret
from connectors.secret_managers.base import SecretUnreadable
from connectors.secret_values import read_secret_value
from rbac.models import Scope

SECRET_UNREADABLE: Final = "SECRET_UNREADABLE"  # noqa: S105 - the code of an error


def read_referenced_secret(scope: Scope, reference: str) -> str:
    """Return the value of a secret by reference. Raises `Undelivered` if it is missing or unreadable."""
    try:
        return read_secret_value(find_secret(scope, reference), reader=f"executions of {scope}")
    except SecretNotFound as missing:
        raise Undelivered("SECRET_MISSING", str(missing)) from missing
    except SecretUnreadable as unreadable:
        raise Undelivered(SECRET_UNREADABLE, str(unreadable)) from unreadable
