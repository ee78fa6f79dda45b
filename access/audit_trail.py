"""Which entries of the audit trail somebody may read."""

from django.db.models import Q, QuerySet

from rbac.models import AuditEntry, Scope
from rbac.policy import Principal, can, visible_below

VIEW = "core_audit_view"


def readable(principal: Principal, scope: Scope | None = None) -> QuerySet[AuditEntry]:
    """Return the entries that `principal` may read, at and below `scope` where one is given.

    What hangs on no scope, such as a sign-in, belongs to the account.
    """
    entries = AuditEntry.objects.select_related("scope")
    scoped = visible_below(principal, VIEW, entries, scope)
    if scope is not None and scope.kind != Scope.Kind.ACCOUNT:
        return scoped
    if can(principal, VIEW, Scope.objects.account()):
        return scoped | entries.filter(Q(scope__isnull=True))
    return scoped
