"""Records that the deployments of a delegate leave in projects."""

from django.db.models import Q, QuerySet

from catalog.models import Infrastructure
from delegates.models import Delegate


def build_identifier(delegate: Delegate) -> str:
    """Return the identifier of the resources with which Slipway deploys a delegate."""
    return f"slipway_delegate_{delegate.pk}"


def list_places(delegate: Delegate) -> QuerySet[Infrastructure]:
    """Return the infrastructures to which Slipway deployed a delegate, the newest first."""
    path = delegate.scope.path
    below = Q(environment__scope__path=path) | Q(environment__scope__path__startswith=f"{path}/")
    rows = Infrastructure.objects.filter(below, environment__identifier=build_identifier(delegate))
    return rows.select_related("environment__scope", "connector").order_by("-pk")


def list_installation_connectors(delegate: Delegate) -> list[int]:
    """Return the keys of the connectors with which Slipway deployed a delegate, the newest first."""
    return list(list_places(delegate).values_list("connector", flat=True))
