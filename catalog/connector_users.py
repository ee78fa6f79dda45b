"""Users of connectors in the catalog: infrastructures, services, image sources and overrides."""

from collections.abc import Collection, Sequence

from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast
from django.urls import reverse

from catalog.artifacts.image_sources import SOURCE_CONNECTOR_KINDS
from catalog.manifests.stores import get_store, list_stores
from catalog.models import Artifact, Infrastructure, Manifest, ServiceOverride
from catalog.usages import build_override_uses, build_service_uses
from connectors.models import Connector, Secret
from connectors.queries import ConnectorIndex
from connectors.usages import (
    UsableResource,
    UserKeys,
    group_connector_users,
    register_connector_users,
    register_usage_finder,
)
from rbac.policy import Principal, filter_visible
from web.usages import ResourceUsage, ResourceUsages


def build_infrastructure_uses(infrastructure_ids: Collection[int], principal: Principal) -> ResourceUsages:
    """Build the usages of infrastructures from their keys."""
    return _present_infrastructures(Infrastructure.objects.filter(pk__in=infrastructure_ids), principal)


def build_image_uses(service_ids: Collection[int], principal: Principal) -> ResourceUsages:
    """Build the usages of image sources from the keys of their services."""
    services = build_service_uses(service_ids, principal)
    links = (ResourceUsage(f"image source of {usage.title}", usage.url) for usage in services.visible)
    return ResourceUsages(tuple(links), services.hidden)


@register_connector_users("infrastructure", build_infrastructure_uses)
def find_infrastructures_by_connector(connectors: Sequence[Connector]) -> UserKeys:
    """Return the infrastructures that use each connector; one query."""
    rows = Infrastructure.objects.filter(connector__in=[connector.pk for connector in connectors])
    return group_connector_users(rows.values_list("connector", "pk"))


@register_connector_users("service", build_service_uses)
def find_services_by_connector(connectors: Sequence[Connector]) -> UserKeys:
    """Return the services with manifests behind each connector; two queries."""
    index = ConnectorIndex(connectors)
    kinds = {store.name: store.connector_kind for store in list_stores() if store.is_remote}
    rows = Manifest.objects.filter(store__in=kinds, place__connector__in=index.references)
    return group_connector_users(
        (index.find_key(path, place["connector"], kinds[store]), service)
        for path, store, place, service in rows.values_list(
            "service__scope__path", "store", "place", "service"
        )
    )


@register_connector_users("image source", build_image_uses)
def find_image_sources_by_connector(connectors: Sequence[Connector]) -> UserKeys:
    """Return the services that look up image tags through each connector; two queries."""
    index = ConnectorIndex(connectors)
    rows = Artifact.objects.filter(source__connector__in=index.references)
    return group_connector_users(
        (index.find_key(path, source["connector"], SOURCE_CONNECTOR_KINDS[source["type"]]), service)
        for path, source, service in rows.values_list("service__scope__path", "source", "service")
    )


@register_connector_users("override", build_override_uses)
def find_overrides_by_connector(connectors: Sequence[Connector]) -> UserKeys:
    """Return the overrides with manifests behind each connector; two queries."""
    index = ConnectorIndex(connectors)
    rows = ServiceOverride.objects.annotate(manifests_text=Cast("manifests", TextField()))
    remote = rows.filter(manifests_text__contains='"connector"').values_list(
        "environment__scope__path", "service__scope__path", "manifests", "pk"
    )
    return group_connector_users(
        (
            index.find_key(
                max(paths, key=len), row["place"]["connector"], get_store(row["store"]).connector_kind
            ),
            pk,
        )
        for *paths, manifests, pk in remote
        for row in manifests
        if get_store(row["store"]).is_remote
    )


@register_usage_finder
def find_infrastructures_by_secret(thing: UsableResource, principal: Principal) -> ResourceUsages:
    """Return the infrastructures that use a connector with this secret."""
    if not isinstance(thing, Secret):
        return ResourceUsages()
    return _present_infrastructures(Infrastructure.objects.filter(connector__secret=thing), principal)


def _present_infrastructures(rows: QuerySet[Infrastructure], principal: Principal) -> ResourceUsages:
    visible = filter_visible(principal, "core_environment_view", rows.select_related("environment")).order_by(
        "environment__identifier", "name"
    )
    usages = tuple(
        ResourceUsage(
            f"infrastructure {infrastructure.name} of {infrastructure.environment.name}",
            reverse("environment", args=[infrastructure.environment_id]),
        )
        for infrastructure in visible
    )
    return ResourceUsages(usages, hidden=rows.count() - len(usages))
