"""Registries of usage finders and counters, and the usages of a file, connector or secret."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.urls import reverse

from connectors.models import Connector, FileNode, Secret
from rbac.policy import Principal, filter_visible
from web.http.problems import ResourceInUse

_MAX_NAMED = 5

UsableResource = FileNode | Connector | Secret


@dataclass(frozen=True)
class ResourceUsage:
    """Something that uses a thing, as a page links to it."""

    title: str
    url: str


@dataclass(frozen=True)
class ResourceUsages:
    """References to a resource: visible ones by name, and the number of the others."""

    visible: tuple[ResourceUsage, ...] = ()
    hidden: int = 0

    def __bool__(self) -> bool:
        return bool(self.visible or self.hidden)

    def __str__(self) -> str:
        named = [use.title for use in self.visible[:_MAX_NAMED]]
        unnamed_count = len(self.visible) - len(named) + self.hidden
        return " and ".join(
            part for part in (", ".join(named), f"{unnamed_count} more" if unnamed_count else "") if part
        )


UsageFinder = Callable[[UsableResource, Principal], ResourceUsages]
_USAGE_FINDERS: list[UsageFinder] = []


def register_usage_finder(finder: UsageFinder) -> UsageFinder:
    """Register a function that finds references to a kind of resource."""
    _USAGE_FINDERS.append(finder)
    return finder


UsageCounter = Callable[[Sequence[Connector]], Mapping[int, int]]
_USAGE_COUNTERS: dict[str, UsageCounter] = {}


def register_usage_counter(noun: str) -> Callable[[UsageCounter], UsageCounter]:
    """Register a function that counts the users of connectors, by key, in a constant number of queries."""

    def register(counter: UsageCounter) -> UsageCounter:
        _USAGE_COUNTERS[noun] = counter
        return counter

    return register


def count_connector_usages(connectors: Sequence[Connector]) -> dict[int, str]:
    """Return the number of users of each connector in words, such as "2 services"; "" without users.

    Hidden users count too, as in `ResourceUsages`. Pipelines do not: each of them must be parsed.
    """
    counts = [(noun, counter(connectors)) for noun, counter in sorted(_USAGE_COUNTERS.items())]
    return {
        connector.pk: ", ".join(
            f"{count} {noun}{'' if count == 1 else 's'}"
            for noun, by_connector in counts
            if (count := by_connector.get(connector.pk, 0))
        )
        for connector in connectors
    }


def find_usages(thing: UsableResource, principal: Principal) -> ResourceUsages:
    """Return all references to a resource; `principal` gets the names of visible ones."""
    usages = [finder(thing, principal) for finder in _USAGE_FINDERS]
    return ResourceUsages(
        _join_usages(usage.visible for usage in usages), sum(usage.hidden for usage in usages)
    )


@register_usage_finder
def find_secret_usages(thing: UsableResource, principal: Principal) -> ResourceUsages:
    """Return the connectors that use a secret."""
    if not isinstance(thing, Secret):
        return ResourceUsages()
    connectors = Connector.objects.filter(secret=thing).select_related("scope")
    visible = filter_visible(principal, "core_connector_view", connectors).order_by(
        "scope__path", "identifier"
    )
    usages = tuple(
        ResourceUsage(f"connector {connector.name}", reverse("connector", args=[connector.pk]))
        for connector in visible
    )
    return ResourceUsages(usages, hidden=connectors.count() - len(usages))


def require_unused_file(node: FileNode, principal: Principal) -> None:
    """Check that a file has no references. Raises `ResourceInUse`."""
    if usages := find_usages(node, principal):
        raise ResourceInUse(
            f"{node.path} is still in use by {usages}. Change these references first, or confirm that they "
            f"break."
        )


def _join_usages(usage_groups: Iterable[tuple[ResourceUsage, ...]]) -> tuple[ResourceUsage, ...]:
    return tuple(use for group in usage_groups for use in group)
