"""Values of secrets that the parameters of calls refer to."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from aws.errors import Unavailable, Undelivered
from connectors.queries import SecretNotFound, find_secret
from connectors.secret_managers.base import SecretPending, SecretUnreadable
from connectors.secret_values import read_secret_value
from delegates.access.aws_access import ConnectorPending
from rbac.models import Scope

SECRET_UNREADABLE: Final = "SECRET_UNREADABLE"  # noqa: S105 - the code of an error
SECRET_PENDING: Final = "SECRET_PENDING"  # noqa: S105 - the code of an error


@contextmanager
def unsent_while_pending() -> Iterator[None]:
    """Raise `Unavailable`, after which the engine tries again, while a delegate reads a secret of a call."""
    try:
        yield
    except (SecretPending, ConnectorPending) as pending:
        raise Unavailable(SECRET_PENDING, str(pending)) from pending


def read_referenced_secret(scope: Scope, reference: str) -> str:
    """Return the value of a secret by reference.

    Raises `Undelivered` if it is missing or unreadable, and `Unavailable` while a delegate reads it.
    """
    try:
        with unsent_while_pending():
            return read_secret_value(find_secret(scope, reference), reader=f"executions of {scope}")
    except SecretNotFound as missing:
        raise Undelivered("SECRET_MISSING", str(missing)) from missing
    except SecretUnreadable as unreadable:
        raise Undelivered(SECRET_UNREADABLE, str(unreadable)) from unreadable
