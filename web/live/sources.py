"""Sources of topics: snapshots of their objects and the users who may subscribe.

Apps register their sources at startup, so that this module depends on none of them.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from django.core.exceptions import ValidationError
from django.db.models import Model

from rbac.models import Scope, User
from rbac.policy import Grants, ResourceLocation, get_resource_locations

# The largest key that the databases know.
LARGEST_PRIMARY_KEY: Final = 2**63 - 1


@dataclass(frozen=True)
class Audience:
    """Users with `permission` at `location` (any location if empty), or one user alone."""

    location: ResourceLocation | None = None
    permission: str = ""
    person_id: int | None = None

    def includes(self, person: User, grants: Grants) -> bool:
        """Return whether `grants` make this person a member."""
        if self.location is None:
            return person.pk is not None and person.pk == self.person_id
        permissions = grants.get_permissions(person, self.location)
        return self.permission in permissions if self.permission else bool(permissions)


@dataclass(frozen=True)
class TopicSnapshot:
    """Snapshot of an object with its topics and audience; viewers are notified when `state` changes.

    `list_topic` is the topic of lists of its scope and the scopes above. `age` is its age, which is only sent
    with the full read of each minute.
    """

    audience: Audience
    state: Hashable
    topics: frozenset[str] = frozenset()
    list_topic: str = ""
    age: Hashable = None

    @property
    def location(self) -> tuple[frozenset[str], str]:
        """Return the topics of the snapshot."""
        return self.topics, self.list_topic


# Where each thing is shown, by its key.
SnapshotsByKey = Mapping[str, tuple[TopicSnapshot, ...]]
# Audiences of the topics with these keys, without missing ones. One query.
AudienceLookup = Callable[[Collection[str]], Mapping[str, Audience]]


@dataclass(frozen=True)
class TopicSource:
    """Objects of one kind that live pages show.

    `read_snapshots` reads the objects with these keys, or with `None` all open ones, in a constant number of
    queries. `topics` has the topics of pages with their audiences.
    """

    name: str
    topics: Mapping[str, AudienceLookup]
    read_snapshots: Callable[[Collection[str] | None], SnapshotsByKey]
    # Whether only the keys of open pages are read, all of them whenever anything of the source changes.
    reads_watched_keys: bool = field(default=False, kw_only=True)
    # Interval for changes without a message.
    poll_seconds: float = field(default=60, kw_only=True)


_sources: Final[dict[str, TopicSource]] = {}
_sources_by_topic: Final[dict[str, TopicSource]] = {}


def register_source(source: TopicSource) -> None:
    """Register a source."""
    _sources[source.name] = source
    _sources_by_topic.update(dict.fromkeys(source.topics, source))


def list_sources() -> list[TopicSource]:
    """Return all registered sources."""
    return list(_sources.values())


def get_source(name: str) -> TopicSource:
    """Return the source with this name."""
    return _sources[name]


def get_topic_source(topic: str) -> TopicSource | None:
    """Return the source of a topic such as `executions:12`."""
    return _sources_by_topic.get(topic.partition(":")[0])


def list_topic_names() -> frozenset[str]:
    """Return the topic names without keys."""
    return frozenset(_sources_by_topic)


def get_audiences(topics: Iterable[str]) -> dict[str, Audience]:
    """Return the audience of each existing topic; one query for each kind of topic."""
    keys_by_name: dict[str, dict[str, str]] = {}
    for topic in topics:
        name, _, key = topic.partition(":")
        if name in _sources_by_topic and key:
            keys_by_name.setdefault(name, {})[key] = topic
    audiences_by_topic: dict[str, Audience] = {}
    for name, keys in keys_by_name.items():
        audiences = _sources_by_topic[name].topics[name](keys)
        audiences_by_topic.update((keys[key], audience) for key, audience in audiences.items())
    return audiences_by_topic


def audience_of_rows(model: type[Model], permission: str) -> AudienceLookup:
    """Return the audiences of topics of `model` rows: users with `permission` on the row."""

    def audiences(keys: Collection[str]) -> dict[str, Audience]:
        by_key = parse_primary_keys(model, keys)
        places = get_resource_locations(model, by_key)
        return {by_key[pk]: Audience(place, permission) for pk, place in places.items()}

    return audiences


def audience_of_scopes(keys: Collection[str]) -> dict[str, Audience]:
    """Return the audiences of scope topics: all members; each change has its own audience."""
    by_key = parse_primary_keys(Scope, keys)
    scope_ids = Scope.objects.filter(pk__in=list(by_key)).values_list("pk", flat=True)
    return {by_key[pk]: Audience(ResourceLocation(pk, {})) for pk in scope_ids}


def parse_primary_keys(model: type[Model], keys: Iterable[str]) -> dict[Any, str]:
    """Return the valid keys of `model` among these texts, with their original texts."""
    values = {}
    for key in keys:
        try:
            value = model._meta.pk.to_python(key)
        except ValidationError:
            continue
        if not isinstance(value, int) or 0 < value <= LARGEST_PRIMARY_KEY:
            values[value] = key
    return values
