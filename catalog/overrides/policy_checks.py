"""Policy checks of manifests, and their documents; `policies.subjects` has an example.

Manifests in Git and S3 are not known before a run fetches them: the steps that read them check them.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from catalog.manifests.documents import BadDocument
from catalog.manifests.layers import merge_layers_of_kind
from catalog.manifests.locations import is_unfetched, read_layers
from catalog.manifests.stores import TASK_DEFINITION_ARN, StoreError
from catalog.models import Environment, Manifest, Service
from catalog.overrides.effective_manifests import get_file_scope
from catalog.overrides.override_sets import ManifestRow, ServiceOverrideSet, build_manifest_row
from connectors.file_store import FileNotInStore
from policies.evaluation import RulesInForce, require_no_refusals
from policies.models import PolicyRule
from rbac.models import Scope


def require_allowed_service(service: Service) -> None:
    """Raise `PolicyViolated` for rules that refuse a service's own manifests, which have no environment."""
    rules = RulesInForce(service.scope, [PolicyRule.Subject.MANIFEST])
    violations = rules.find_violations(PolicyRule.Subject.MANIFEST, lambda: build_service_documents(service))
    require_no_refusals(violations, "manifest")


def require_allowed_overrides(override_set: ServiceOverrideSet) -> None:
    """Raise `PolicyViolated` for rules that refuse the manifests of a service in an environment."""
    rules = RulesInForce(get_file_scope(override_set), [PolicyRule.Subject.MANIFEST])
    violations = rules.find_violations(
        PolicyRule.Subject.MANIFEST, lambda: build_effective_documents([override_set])
    )
    require_no_refusals(violations, "manifest")


def build_service_documents(service: Service) -> list[dict[str, Any]]:
    """Return the documents of a service's own manifests."""
    rows = [build_manifest_row(manifest) for manifest in service.manifests.order_by("pk")]
    return list(_build_documents(rows, service.scope, service, None))


def build_effective_documents(override_sets: Iterable[ServiceOverrideSet]) -> list[dict[str, Any]]:
    """Return the documents of the effective manifests in each environment."""
    return [
        document
        for override_set in override_sets
        for document in _build_documents(
            override_set.list_rows(),
            get_file_scope(override_set),
            override_set.service,
            override_set.environment,
        )
    ]


def build_manifest_document(
    kind: str, manifest: Any, service: Service, environment: Environment | None
) -> dict[str, Any]:
    """Return the document of a manifest; without an environment its names are empty."""
    names = ("identifier", "name", "kind")
    return {
        "kind": kind,
        "manifest": manifest,
        "service": {"identifier": service.identifier, "name": service.name, "scope": service.scope.path},
        "environment": {name: getattr(environment, name) if environment else "" for name in names},
    }


def _build_documents(
    rows: Sequence[ManifestRow], scope: Scope, service: Service, environment: Environment | None
) -> Iterator[dict[str, Any]]:
    for kind in Manifest.Kind.values:
        for manifest in _merge_rows(kind, [row for row in rows if row["kind"] == kind], scope):
            yield build_manifest_document(kind, manifest, service, environment)


def _merge_rows(kind: str, rows: Sequence[ManifestRow], scope: Scope) -> Iterator[Any]:
    if not rows or rows[0]["store"] == TASK_DEFINITION_ARN or any(is_unfetched(row) for row in rows):
        return
    try:
        layers = read_layers(kind, rows, scope)
        yield from (merged.document.value for merged in merge_layers_of_kind(kind, layers))
    except (StoreError, FileNotInStore, BadDocument):
        # The check of manifests reports it.
        return
