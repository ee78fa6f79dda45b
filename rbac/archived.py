"""Which archived scopes a person may see: those that they could bring back."""

from django.db.models import Q, QuerySet

from rbac.models import Scope
from rbac.policy import Principal, scopes_where


def restorable(principal: Principal) -> QuerySet[Scope]:
    """Return the archived scopes that the principal may bring back, not those below another archived one."""
    kinds = (("ORGANIZATION", "core_organization_delete"), ("PROJECT", "core_project_delete"))
    found = Q(pk__in=[])
    for kind, permission in kinds:
        found |= Q(kind=kind, parent__in=scopes_where(principal, permission).values("pk"))
    return Scope.objects.filter(found, archived_at__isnull=False, parent__archived_at__isnull=True)
