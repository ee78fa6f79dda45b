"""Finds secrets by the references that people write: an identifier, `org.` or `account.` before it."""

from connectors.models import Secret
from rbac.models import Scope

_LEVELS = {"account": 1, "org": 2}


class SecretMissing(ValueError):
    """A reference leads to no secret."""


def find_secret(scope: Scope, reference: str) -> Secret:
    """The secret that a reference names, seen from `scope`. Raises `SecretMissing`.

    `account.name` lies at the account, `org.name` at the organization; a bare name at the scope itself, or
    at the nearest one above it.
    """
    level, _, rest = reference.partition(".")
    paths = scope.ancestor_paths()
    if rest:
        paths = [path for path in paths if path.count("/") + 1 == _LEVELS.get(level)]
    found = Secret.objects.filter(scope__path__in=paths, identifier=rest or level).select_related("scope")
    nearest = max(found, key=lambda one: len(one.scope.path), default=None)
    if nearest is None:
        raise SecretMissing(
            f"There is no secret {reference} in {scope.path}: make it, or write its reference as "
            "name, org.name or account.name."
        )
    return nearest
