"""Connectors to AWS that a person may use."""

from django.db.models import Q, QuerySet

from connectors.models import Connector
from rbac.models import Scope
from rbac.policy import Principal, filter_visible

USE_CONNECTOR = "core_connector_access"


def list_aws_connectors(person: Principal) -> QuerySet[Connector]:
    """Return the connectors to AWS that a person may use, by name."""
    rows = Connector.objects.filter(kind=Connector.Kind.AWS).select_related("scope", "secret")
    return filter_visible(person, USE_CONNECTOR, rows).order_by("name", "pk")


def list_near_connectors(person: Principal, scope: Scope) -> QuerySet[Connector]:
    """Return the connectors to AWS of a scope, above and below it that a person may use, by scope."""
    near = Q(scope__path__in=scope.ancestor_paths()) | Q(scope__path__startswith=f"{scope.path}/")
    rows = list_aws_connectors(person).filter(near, scope__archived_at=None)
    return rows.order_by("scope__path", "identifier")
