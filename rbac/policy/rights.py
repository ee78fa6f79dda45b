"""All that a principal may do in one place, in one query, for pages that ask for many permissions."""

from collections.abc import Iterable
from typing import Any

from django.db.models import BooleanField, Exists, ExpressionWrapper, FilteredRelation, Q

from rbac.models import Scope
from rbac.permissions import ALWAYS_GRANTED, PERMISSIONS, SHARED_VIEWS
from rbac.policy.principals import Principal, assignments_of, key_allows, key_scope
from rbac.policy.remembering import known_rights
from rbac.policy.things import Scoped, identities_of, scope_id_of
from rbac.policy.tree import at_or_below_key, covers, live, looks_up_to
from rbac.policy.where import scopes_of_member

_EVERYTHING = Q(resource_group__entries__identifier="")
# Of each row of an assignment: a permission of its role, its resource group, a kind of thing in that.
_GRANTED = ("role__permissions__permission", "resource_group_id", "entry__resource")


def permissions_at(principal: Principal, thing: Scoped) -> frozenset[str]:
    """Return every permission that the principal has on `thing`.

    One query, or none where rights are remembered; one more for an API key that is limited to a scope.
    """
    known = known_rights(principal)
    here = known.permissions_at(thing) if known is not None else None
    if here is not None:
        return here
    entries = _EVERYTHING
    for resource, identifier in identities_of(thing).items():
        entries |= Q(
            resource_group__entries__resource=resource, resource_group__entries__identifier=identifier
        )
    return _at(principal, scope_id_of(thing), entries, is_shared=True)


def permissions_over(principal: Principal, scope: Scope) -> frozenset[str]:
    """Return every permission that the principal has on all things of its kind, at `scope` and below it.

    Unlike `permissions_at` it leaves out what is only seen from below: it is what one may hand out there.
    """
    return _at(principal, scope.pk, _EVERYTHING, is_shared=False)


def permissions_anywhere(principal: Principal) -> frozenset[str]:
    """Return every permission that the principal has on anything in any scope; one query, or none."""
    if known := known_rights(principal):
        return known.permissions_anywhere()
    rows = assignments_of(principal).filter(live("scope__"))
    entry = FilteredRelation("resource_group__entries")
    return _allowed(principal, rows.annotate(entry=entry).values_list(*_GRANTED).distinct())


def _at(principal: Principal, scope: int, entries: Q, *, is_shared: bool) -> frozenset[str]:
    reach = covers(scope) | looks_up_to(scope) if is_shared else covers(scope)
    rows = (
        assignments_of(principal)
        .filter(reach)
        .filter(Exists(Scope.objects.filter(live(), pk=scope)))
        .annotate(is_covered=ExpressionWrapper(covers(scope), output_field=BooleanField()))
        .annotate(entry=FilteredRelation("resource_group__entries", condition=entries))
    )
    key = key_scope(principal)
    is_inside = key is None or Scope.objects.filter(at_or_below_key(key), pk=scope).exists()
    if not is_inside and not (is_shared and scopes_of_member(principal).filter(pk=scope).exists()):
        return frozenset()
    found = rows.values_list(*_GRANTED, "is_covered").distinct()
    is_over = [(row[:3], row[3] and is_inside) for row in found]
    over = _allowed(principal, (row for row, covered in is_over if covered))
    seen = _allowed(principal, (row for row, _ in is_over)) if is_shared else frozenset()
    return over | (seen & SHARED_VIEWS)


def _allowed(principal: Principal, rows: Iterable[tuple[Any, ...]]) -> frozenset[str]:
    found = list(rows)
    granted = {
        permission
        for permission, group, resource in found
        if permission in PERMISSIONS and (group is None or PERMISSIONS[permission].resource == resource)
    }
    if found:
        granted.add(ALWAYS_GRANTED)
    return frozenset(p for p in granted if key_allows(principal, p))
