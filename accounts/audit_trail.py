"""Which entries of the audit trail somebody may read."""

from django.db.models import QuerySet

from rbac.models import AuditEntry, Scope
from rbac.policy import Principal, can, visible_below

VIEW = "core_audit_view"


def readable(principal: Principal, scope: Scope | None = None) -> QuerySet[AuditEntry]:
    """Return the entries that `principal` may read, at and below `scope` where one is given.

    Who may read the account's reads all: sign-ins too, which hang on no scope, and what was done in a scope
    before it was archived.
    """
    entries = AuditEntry.objects.select_related("scope")
    is_wide = scope is None or scope.kind == Scope.Kind.ACCOUNT
    if is_wide and can(principal, VIEW, Scope.objects.account()):
        return entries
    return visible_below(principal, VIEW, entries, scope)
