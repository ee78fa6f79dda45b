"""Lookup of connectors, secrets and files that are visible from a scope."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from django.db.models import QuerySet, Value
from django.db.models.functions import StrIndex, Substr

from connectors.file_store import filter_folder_contents
from connectors.models import Connector, EventQueue, EventQueueSetup, FileNode, Secret
from rbac.models import Scope
from rbac.models.scopes import list_ancestor_paths
from web.clock import get_database_time

_REFERENCE_LEVELS: Final = {"account": 1, "org": 2}


def list_connectors(scope: Scope, *kinds: str) -> QuerySet[Connector]:
    """Return the connectors that something in `scope` may point at; of one identifier the nearest first.

    Without `kinds` those to AWS.
    """
    accepted_kinds = kinds or (Connector.Kind.AWS,)
    connectors = Connector.objects.filter(scope__path__in=scope.ancestor_paths(), kind__in=accepted_kinds)
    return connectors.select_related("scope", "secret").order_by("identifier", "-scope__path")


@dataclass(frozen=True)
class EventQueueView:
    """Event queue with its state as of now."""

    queue: EventQueue
    state: EventQueue.State
    reason: str


def list_event_queues(connector: Connector) -> list[EventQueueView]:
    """Return the event queues of a connector by region."""
    now = get_database_time()
    return [
        EventQueueView(queue, queue.get_state(now), queue.get_reason(now))
        for queue in connector.event_queues.order_by("region")
    ]


def list_event_queue_setups(connector: Connector) -> list[EventQueueSetup]:
    """Return the set-ups of events that run or failed, unless dismissed, by region."""
    setups = EventQueueSetup.objects.filter(connector=connector, dismissed_at=None)
    shown = list(setups.exclude(status=EventQueueSetup.Status.SUCCEEDED).order_by("region", "pk"))
    for setup in shown:
        setup.connector = connector
    return shown


def find_connector(scope: Scope, reference: str, *kinds: str) -> Connector | None:
    """Return the connector of one of these kinds with a reference visible from `scope`, or None.

    `account.name` is in the account, `org.name` in the organization, a bare name in the nearest scope.
    """
    identifier, paths = _parse_reference(scope.path, reference)
    matches = list_connectors(scope, *kinds).filter(identifier=identifier, scope__path__in=paths)
    return matches.select_related("scope", "secret__scope").order_by("-scope__path").first()


def format_reference(connector: Connector) -> str:
    """Return the reference that finds a connector although a nearer one has the same identifier."""
    depth = connector.scope.path.count("/") + 1
    level = next((name for name, number in _REFERENCE_LEVELS.items() if number == depth), "")
    return f"{level}.{connector.identifier}" if level else connector.identifier


class ConnectorIndex:
    """Connectors by scope and identifier; resolves any number of references with one query, or with none."""

    def __init__(self, connectors: Iterable[Connector]) -> None:
        """Take the connectors that share an identifier with one of these."""
        identifiers = {connector.identifier for connector in connectors}
        # All spellings of references to these connectors.
        self.references = sorted(
            f"{level}{identifier}"
            for identifier in identifiers
            for level in ("", *(f"{name}." for name in _REFERENCE_LEVELS))
        )
        self._identifiers = identifiers

    def find_key(self, scope_path: str, reference: str, kind: str) -> int | None:
        """Return the key of the connector that `find_connector` would return, or None."""
        identifier, paths = _parse_reference(scope_path, reference)
        matches = (self._keys.get((path, identifier), ("", None)) for path in reversed(paths))
        return next((pk for candidate_kind, pk in matches if candidate_kind == kind), None)

    @cached_property
    def _keys(self) -> dict[tuple[str, str], tuple[str, int]]:
        rows = Connector.objects.filter(identifier__in=self._identifiers)
        return {
            (path, identifier): (kind, pk)
            for path, identifier, kind, pk in rows.values_list("scope__path", "identifier", "kind", "pk")
        }


def _parse_reference(scope_path: str, reference: str) -> tuple[str, list[str]]:
    """Return the identifier of a reference, and the scopes that it may be in, outermost first."""
    level, _, identifier = reference.partition(".")
    paths = list_ancestor_paths(scope_path)
    if not identifier:
        return level, paths
    depth = _REFERENCE_LEVELS.get(level, 0)
    return identifier, [path for path in paths if path.count("/") + 1 == depth]


def list_secrets(scope: Scope) -> QuerySet[Secret]:
    """Return the secrets that something in `scope` may point at, without their values."""
    secrets = Secret.objects.filter(scope__path__in=scope.ancestor_paths())
    return secrets.defer("value").select_related("scope").order_by("identifier", "-scope__path")


def list_folder_contents(scope: Scope, folder: str = "") -> QuerySet[FileNode]:
    """Return the direct content of a folder ("" for the root), folders first, without texts."""
    below = filter_folder_contents(FileNode.objects.filter(scope=scope), folder)
    direct = below.alias(deeper=StrIndex(Substr("path", len(folder) + 2), Value("/"))).filter(deeper=0)
    return direct.defer("content").order_by("-is_folder", "path")


class SecretNotFound(ValueError):
    """A reference leads to no secret."""


def find_secrets(scope: Scope, references: Iterable[str]) -> dict[str, Secret]:
    """Return the secrets of references as `find_secret` does, in one query; missing ones are left out."""
    parsed = {reference: _parse_reference(scope.path, reference) for reference in references}
    identifiers = {identifier for identifier, _ in parsed.values()}
    rows = Secret.objects.filter(scope__path__in=scope.ancestor_paths(), identifier__in=identifiers)
    secrets = {(row.scope.path, row.identifier): row for row in rows.select_related("scope")}
    nearest = {
        reference: next(
            (secrets[path, identifier] for path in reversed(paths) if (path, identifier) in secrets), None
        )
        for reference, (identifier, paths) in parsed.items()
    }
    return {reference: secret for reference, secret in nearest.items() if secret is not None}


def describe_missing_secret(scope: Scope, reference: str) -> str:
    """Return the message for a reference that leads to no secret."""
    return (
        f"No secret {reference} in {scope.path}. Create it, or correct the reference: name, org.name or "
        "account.name."
    )


def find_secret(scope: Scope, reference: str) -> Secret:
    """Return the secret with a reference, seen from `scope`. Raises `SecretNotFound`.

    `account.name` is in the account, `org.name` in the organization, a bare name in the nearest scope.
    """
    secret = find_secrets(scope, [reference]).get(reference)
    if secret is None:
        raise SecretNotFound(describe_missing_secret(scope, reference))
    return secret
