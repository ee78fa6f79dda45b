"""What pages can hear of: subjects, how each of their things looks now, and who may hear of it.

Apps enter their subjects as they start, so that this one knows none of them.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from django.core.exceptions import ValidationError
from django.db.models import Model

from rbac.models import Scope, User
from rbac.policy import Grants, Place, places_of

# The largest key that the databases know.
LARGEST_KEY: Final = 2**63 - 1


@dataclass(frozen=True)
class Audience:
    """Who may hear: whoever holds `permission` at `place` (any where it is empty), or one person alone."""

    place: Place | None = None
    permission: str = ""
    person_id: int | None = None

    def includes(self, person: User, grants: Grants) -> bool:
        """Whether this person belongs to it, as far as `grants` knows."""
        if self.place is None:
            return person.pk is not None and person.pk == self.person_id
        held = grants.permissions_at(person, self.place)
        return self.permission in held if self.permission else bool(held)


@dataclass(frozen=True)
class Shown:
    """How a thing looks under some topics, and to whom: they are told once `seen` differs.

    `listed_as` names the topic of the lists of its scope and of the scopes above. `fresh` says how old it is:
    that always differs, so it is told with the look of each minute only.
    """

    audience: Audience
    seen: Hashable
    topics: frozenset[str] = frozenset()
    listed_as: str = ""
    fresh: Hashable = None

    @property
    def where(self) -> tuple[frozenset[str], str]:
        """Under what it is shown."""
        return self.topics, self.listed_as


# Where each thing is shown, by its key.
Looks = Mapping[str, tuple[Shown, ...]]
# Who may listen to a topic with each of these keys; what there is not is left out. One query.
Audiences = Callable[[Collection[str]], Mapping[str, Audience]]


@dataclass(frozen=True)
class Subject:
    """Things of one kind that pages show and that change by themselves.

    `looks` reads those with these keys, or with `None` all that may change by themselves: in as many queries
    however many there are. `topics` has what pages may name, with who may listen.
    """

    name: str
    topics: Mapping[str, Audiences]
    looks: Callable[[Collection[str] | None], Looks]
    # How soon is found what nobody told.
    look_every_seconds: float = field(default=60, kw_only=True)


_subjects: Final[dict[str, Subject]] = {}
_by_topic: Final[dict[str, Subject]] = {}


def enter(subject: Subject) -> None:
    """Have pages hear of a subject."""
    _subjects[subject.name] = subject
    _by_topic.update(dict.fromkeys(subject.topics, subject))


def subjects() -> list[Subject]:
    """All that pages can hear of."""
    return list(_subjects.values())


def subject_named(name: str) -> Subject:
    """The subject with this name."""
    return _subjects[name]


def subject_of(topic: str) -> Subject | None:
    """The subject that a topic such as `executions:12` is about."""
    return _by_topic.get(topic.partition(":")[0])


def topic_names() -> frozenset[str]:
    """What topics there are, without keys."""
    return frozenset(_by_topic)


def may_listen(topics: Iterable[str]) -> dict[str, Audience]:
    """Who may listen to each of these topics, of those that there are; one query for each kind of topic."""
    asked: dict[str, dict[str, str]] = {}
    for topic in topics:
        name, _, key = topic.partition(":")
        if name in _by_topic and key:
            asked.setdefault(name, {})[key] = topic
    found: dict[str, Audience] = {}
    for name, keys in asked.items():
        audiences = _by_topic[name].topics[name](keys)
        found.update((keys[key], audience) for key, audience in audiences.items())
    return found


def at_places(model: type[Model], permission: str) -> Audiences:
    """Topics that name a row of `model`: for whom holds `permission` on it."""

    def audiences(keys: Collection[str]) -> dict[str, Audience]:
        by_key = keys_of(model, keys)
        places = places_of(model, by_key)
        return {by_key[pk]: Audience(place, permission) for pk, place in places.items()}

    return audiences


def in_scopes(keys: Collection[str]) -> dict[str, Audience]:
    """Topics that name a scope: for whoever may do anything there; each change has its own audience."""
    by_key = keys_of(Scope, keys)
    there = Scope.objects.filter(pk__in=list(by_key)).values_list("pk", flat=True)
    return {by_key[pk]: Audience(Place(pk, {})) for pk in there}


def keys_of(model: type[Model], keys: Iterable[str]) -> dict[Any, str]:
    """What of these can be keys of `model`, as the database has them, with how each was written."""
    found = {}
    for key in keys:
        try:
            value = model._meta.pk.to_python(key)
        except ValidationError:
            continue
        if not isinstance(value, int) or 0 < value <= LARGEST_KEY:
            found[value] = key
    return found
