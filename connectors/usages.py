"""Registries of usage finders, and the usages of a file, connector or secret."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Q
from django.urls import reverse

from connectors.models import Connector, FileNode, Secret
from rbac.policy import Principal, filter_visible
from web.http.problems import ResourceInUse
from web.usages import ResourceUsage, ResourceUsages

UsableResource = FileNode | Connector | Secret


UsageFinder = Callable[[UsableResource, Principal], ResourceUsages]
_USAGE_FINDERS: list[UsageFinder] = []


def register_usage_finder(finder: UsageFinder) -> UsageFinder:
    """Register a function that finds references to files or secrets."""
    _USAGE_FINDERS.append(finder)
    return finder


UserKeys = Mapping[int, Collection[int]]
UserFinder = Callable[[Sequence[Connector]], UserKeys]
UserPresenter = Callable[[Collection[int], Principal], ResourceUsages]


@dataclass(frozen=True)
class ConnectorUserKind:
    """A kind of resource that refers to connectors.

    `find_keys` returns the keys of the users of each connector, in a constant number of queries. `present`
    returns their links.
    """

    noun: str
    find_keys: UserFinder
    present: UserPresenter


_CONNECTOR_USER_KINDS: dict[str, ConnectorUserKind] = {}


def register_connector_users(noun: str, present: UserPresenter) -> Callable[[UserFinder], UserFinder]:
    """Register a finder of the users of connectors, with the function that links to them."""

    def register(find_keys: UserFinder) -> UserFinder:
        _CONNECTOR_USER_KINDS[noun] = ConnectorUserKind(noun, find_keys, present)
        return find_keys

    return register


def group_connector_users(pairs: Iterable[tuple[int | None, int]]) -> UserKeys:
    """Group pairs of connector and user by connector; pairs without a connector are left out."""
    users: defaultdict[int, set[int]] = defaultdict(set)
    for connector_id, user_id in pairs:
        if connector_id is not None:
            users[connector_id].add(user_id)
    return users


def count_connector_usages(connectors: Sequence[Connector]) -> dict[int, str]:
    """Return the number of users of each connector in words, such as "2 services"; "" without users.

    Users that the reader cannot view count too, as in `ResourceUsages`.
    """
    users = [(kind.noun, kind.find_keys(connectors)) for kind in _list_connector_user_kinds()]
    return {
        connector.pk: ", ".join(
            _format_count(count, noun) for noun, keys in users if (count := len(keys.get(connector.pk, ())))
        )
        for connector in connectors
    }


RecordCounter = Callable[[Connector], int]
_RECORD_COUNTERS: dict[str, RecordCounter] = {}


def register_connector_records(noun: str, counter: RecordCounter) -> None:
    """Register a counter of records that keep a connector from deletion, such as executions."""
    _RECORD_COUNTERS[noun] = counter


def describe_connector_records(connector: Connector) -> str:
    """Return why records keep a connector from deletion; "" without records."""
    counts = [(noun, counter(connector)) for noun, counter in sorted(_RECORD_COUNTERS.items())]
    records = ", ".join(_format_count(count, noun) for noun, count in counts if count)
    if not records:
        return ""
    return f"{records} in the history used this connector. Delete it after retention has removed them."


def find_usages(thing: UsableResource, principal: Principal) -> ResourceUsages:
    """Return all references to a resource; `principal` gets the names of visible ones."""
    usages = [finder(thing, principal) for finder in _USAGE_FINDERS]
    if isinstance(thing, Connector):
        usages += [
            kind.present(kind.find_keys([thing]).get(thing.pk, ()), principal)
            for kind in _list_connector_user_kinds()
        ]
    return ResourceUsages(
        _join_usages(usage.visible for usage in usages), sum(usage.hidden for usage in usages)
    )


@register_usage_finder
def find_secret_usages(thing: UsableResource, principal: Principal) -> ResourceUsages:
    """Return the connectors that use a secret."""
    if not isinstance(thing, Secret):
        return ResourceUsages()
    connectors = Connector.objects.filter(Q(secret=thing) | Q(session_token=thing)).select_related("scope")
    visible = filter_visible(principal, "core_connector_view", connectors).order_by(
        "scope__path", "identifier"
    )
    usages = tuple(
        ResourceUsage(f"connector {connector.name}", reverse("connector", args=[connector.pk]))
        for connector in visible
    )
    return ResourceUsages(usages, hidden=connectors.count() - len(usages))


def _present_secrets(secret_ids: Collection[int], principal: Principal) -> ResourceUsages:
    secrets = Secret.objects.filter(pk__in=secret_ids).defer("value").select_related("scope")
    visible = filter_visible(principal, "core_secret_view", secrets).order_by("scope__path", "identifier")
    usages = tuple(
        ResourceUsage(f"secret {secret.name}", reverse("secret", args=[secret.pk])) for secret in visible
    )
    return ResourceUsages(usages, hidden=len(secret_ids) - len(usages))


@register_connector_users("secret", _present_secrets)
def find_secrets_by_connector(connectors: Sequence[Connector]) -> UserKeys:
    """Return the secrets that refer to each connector; one query."""
    rows = Secret.objects.filter(manager_connector__in=[connector.pk for connector in connectors])
    return group_connector_users(rows.values_list("manager_connector", "pk"))


def require_unused_file(node: FileNode, principal: Principal) -> None:
    """Check that a file has no references. Raises `ResourceInUse`."""
    if usages := find_usages(node, principal):
        raise ResourceInUse(
            f"{node.path} is still in use by {usages}. Change these references first, or confirm that they "
            f"break."
        )


def _list_connector_user_kinds() -> list[ConnectorUserKind]:
    return [kind for _, kind in sorted(_CONNECTOR_USER_KINDS.items())]


def _format_count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _join_usages(usage_groups: Iterable[tuple[ResourceUsage, ...]]) -> tuple[ResourceUsage, ...]:
    return tuple(use for group in usage_groups for use in group)
