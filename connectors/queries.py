"""Lookup of connectors, secrets and files that are visible from a scope."""

from django.db.models import QuerySet, Value
from django.db.models.functions import StrIndex, Substr

from connectors.file_store import filter_folder_contents
from connectors.models import Connector, FileNode, Secret
from rbac.models import Scope


def list_connectors(scope: Scope, *kinds: str) -> QuerySet[Connector]:
    """Return the connectors that something in `scope` may point at; of one identifier the nearest first.

    Without `kinds` those to AWS.
    """
    accepted_kinds = kinds or (Connector.Kind.AWS,)
    connectors = Connector.objects.filter(scope__path__in=scope.ancestor_paths(), kind__in=accepted_kinds)
    return connectors.select_related("scope", "secret").order_by("identifier", "-scope__path")


def find_connector(scope: Scope, reference: str, *kinds: str) -> Connector | None:
    """Return the connector of one of these kinds with a reference visible from `scope`, or None.

    `account.name` is in the account, `org.name` in the organization, a bare name in the nearest scope.
    """
    level, _, identifier = reference.partition(".")
    matches = list_connectors(scope, *kinds).filter(identifier=identifier or level)
    if identifier:
        depth = {"account": 1, "org": 2}.get(level, 0)
        paths = [path for path in scope.ancestor_paths() if path.count("/") + 1 == depth]
        matches = matches.filter(scope__path__in=paths)
    return matches.select_related("scope", "secret__scope").order_by("-scope__path").first()


def list_secrets(scope: Scope) -> QuerySet[Secret]:
    """Return the secrets that something in `scope` may point at, without their values."""
    secrets = Secret.objects.filter(scope__path__in=scope.ancestor_paths())
    return secrets.defer("value").select_related("scope").order_by("identifier", "-scope__path")


def list_folder_contents(scope: Scope, folder: str = "") -> QuerySet[FileNode]:
    """Return the direct content of a folder ("" for the root), folders first, without texts."""
    below = filter_folder_contents(FileNode.objects.filter(scope=scope), folder)
    direct = below.alias(deeper=StrIndex(Substr("path", len(folder) + 2), Value("/"))).filter(deeper=0)
    return direct.defer("content").order_by("-is_folder", "path")


_REFERENCE_LEVELS = {"account": 1, "org": 2}


class SecretNotFound(ValueError):
    """A reference leads to no secret."""


def find_secret(scope: Scope, reference: str) -> Secret:
    """Return the secret with a reference, seen from `scope`. Raises `SecretNotFound`.

    `account.name` is in the account, `org.name` in the organization, a bare name in the nearest scope.
    """
    level, _, identifier = reference.partition(".")
    paths = scope.ancestor_paths()
    if identifier:
        paths = [path for path in paths if path.count("/") + 1 == _REFERENCE_LEVELS.get(level)]
    secrets = Secret.objects.filter(scope__path__in=paths, identifier=identifier or level).select_related(
        "scope"
    )
    nearest = max(secrets, key=lambda secret: len(secret.scope.path), default=None)
    if nearest is None:
        raise SecretNotFound(
            f"No secret {reference} in {scope.path}. Create it, or correct the reference: name, "
            "org.name or account.name."
        )
    return nearest
