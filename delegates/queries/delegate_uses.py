"""Which connectors a delegate serves: those whose selectors it has, as far as its scope reaches."""

from django.db.models import QuerySet
from django.urls import reverse

from connectors.aws_accounts import read_spec
from connectors.models import Connector
from connectors.uses import Use, Uses
from delegates.models import Delegate, DelegateInstance
from rbac.policy import Principal, at_or_below, visible_to


def served_by(delegate: Delegate, tags: frozenset[str]) -> list[Connector]:
    """The connectors that may be reached through a delegate with these tags, in the order of their names.

    For the built-in one these are the connectors that are reached from this Slipway.
    """
    return [one for one in _in_reach(delegate) if _is_served(one, delegate, tags)]


def uses_of_delegate(delegate: Delegate, principal: Principal) -> Uses:
    """The connectors that name tags which the delegate has, by name as far as `principal` may see them."""
    said = DelegateInstance.objects.filter(delegate=delegate).exclude(status=DelegateInstance.Status.GONE)
    tags = {tag for found in said.values_list("tags", flat=True) for tag in found}
    served = served_by(delegate, frozenset([*delegate.tags, delegate.name, *tags]))
    named = [one for one in served if delegate.is_built_in or read_spec(one.spec).delegate_selectors]
    return as_uses(named, principal)


def as_uses(found: list[Connector], principal: Principal) -> Uses:
    """Connectors by name as far as `principal` may see them, the rest as a number."""
    wanted = Connector.objects.filter(pk__in=[one.pk for one in found])
    seen = set(visible_to(principal, "core_connector_view", wanted).values_list("pk", flat=True))
    shown = tuple(Use(one.name, reverse("connector", args=[one.pk])) for one in found if one.pk in seen)
    return Uses(shown, len(found) - len(shown))


def _in_reach(delegate: Delegate) -> QuerySet[Connector]:
    below = Connector.objects.filter(at_or_below(delegate.scope))
    return below.only("pk", "name", "spec", "scope").order_by("name", "pk")


def _is_served(connector: Connector, delegate: Delegate, tags: frozenset[str]) -> bool:
    spec = read_spec(connector.spec)
    if not spec.is_remote or delegate.is_built_in:
        return delegate.is_built_in and not spec.is_remote
    return set(spec.delegate_selectors) <= tags
