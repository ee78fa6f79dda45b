"""The connectors that manifests in Git and S3 name: which one is meant, and what names one."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from catalog.manifests.places import GIT, S3, is_remote
from connectors.downstream import Need, needs_of_connector
from connectors.models import Connector
from connectors.queries import connectors_for
from rbac.models import Scope

KINDS: Final = {GIT: Connector.Kind.GIT, S3: Connector.Kind.AWS}

Rows = Iterable[Mapping[str, Any]]


def connector_of(scope: Scope, store: str, identifier: str) -> Connector | None:
    """The connector that a manifest in `scope` means by an identifier: the nearest of the store's kind."""
    found = connectors_for(scope, KINDS[store]).filter(identifier=identifier)
    return found.select_related("scope", "secret__scope").order_by("-scope__path").first()


def named_connectors(scope: Scope, rows: Rows) -> dict[tuple[str, str], Connector | None]:
    """The connectors that manifests name, by store and identifier; None where nobody has made one."""
    names = {(row["store"], str(row["place"].get("connector", ""))) for row in rows if is_remote(row)}
    return {name: connector_of(scope, *name) for name in sorted(names)}


def needs_of_stores(rows: Rows, scope: Scope, *, hint: str, path: str) -> Iterator[Need]:
    """Yield what it takes to fetch manifests: access to the connectors that lead there (R082)."""
    for found in named_connectors(scope, rows).values():
        if found is not None:
            yield from needs_of_connector(found, hint=hint, path=path)


def settled(rows: Rows, scope: Scope) -> list[dict[str, Any]]:
    """The manifests as a run keeps them: with the key of the connector that is meant now."""
    found = named_connectors(scope, rows := list(rows))
    return [dict(row) | _key_of(found, row) for row in rows]


def _key_of(found: Mapping[tuple[str, str], Connector | None], row: Mapping[str, Any]) -> dict[str, Any]:
    if not is_remote(row):
        return {}
    connector = found[row["store"], str(row["place"].get("connector", ""))]
    return {"connector_id": connector.pk if connector else None}
