"""Manifests of services in environments as documents of policy rules, for the test bench."""

from itertools import islice
from typing import Any, Final

from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet

from catalog.models import Environment, Service
from catalog.overrides.effective_manifests import list_effective_manifests
from catalog.overrides.override_sets import load_override_set
from catalog.overrides.policy_checks import build_manifest_document
from policies.document_sources import NamedDocument
from rbac.models import Scope, User
from rbac.policy import NotVisible, filter_visible

MOST_CHOICES: Final = 100
# Between the ids of a service and an environment.
SEPARATOR: Final = "/"


def load_manifest_documents(actor: User, resource: str) -> list[NamedDocument]:
    """Return the effective manifests of a service in an environment: "7/3" names their ids.

    Files that the actor cannot view are left out. Raises `NotVisible`.
    """
    service_id, _, environment_id = resource.partition(SEPARATOR)
    service: Service = _get_visible(
        actor, "core_service_view", Service.objects.select_related("scope"), service_id
    )
    environments = Environment.objects.select_related("scope")
    environment: Environment = _get_visible(actor, "core_environment_view", environments, environment_id)
    manifests = list_effective_manifests(load_override_set(service, environment), actor)
    return [
        NamedDocument(
            manifest.kind,
            build_manifest_document(manifest.kind, manifest.merged.document.value, service, environment),
        )
        for manifest in manifests
        if manifest.merged is not None
    ]


def list_manifest_choices(actor: User, scope: Scope) -> list[tuple[str, str]]:
    """Return ids and names of the visible services of a scope with each of its environments."""
    above = [ancestor.pk for ancestor in scope.ancestors_and_self()]
    services = filter_visible(actor, "core_service_view", Service.objects.all(), scope, above)
    rows = filter_visible(actor, "core_environment_view", Environment.objects.all(), scope, above)
    environments = list(rows.order_by("name", "pk")[:MOST_CHOICES])
    pairs = (
        (f"{service.pk}{SEPARATOR}{environment.pk}", f"{service.name} in {environment.name}")
        for service in services.order_by("name", "pk")[:MOST_CHOICES]
        for environment in environments
    )
    return list(islice(pairs, MOST_CHOICES))


def _get_visible(actor: User, permission: str, rows: QuerySet[Any], key: str) -> Any:
    try:
        row: Model | None = filter_visible(actor, permission, rows).filter(pk=key).first()
    except (ValueError, ValidationError, OverflowError):
        row = None
    if row is None:
        raise NotVisible(f"This {rows.model._meta.verbose_name} does not exist, or you cannot view it.")
    return row
