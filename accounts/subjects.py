"""Whom a person may ask about: people, service accounts by their user names, and groups."""

from dataclasses import dataclass

from django.db.models import Q, QuerySet

from rbac.models import ServiceAccount, User, UserGroup
from rbac.people import visible_people
from rbac.policy import Principal, visible_to

GROUP = "group:"
_MOST_SUGGESTED = 50


@dataclass(frozen=True)
class Suggestion:
    """Somebody to choose: what is entered for them, and what they are called."""

    value: str
    label: str


def subject_named(asker: Principal, name: str) -> User | UserGroup | None:
    """Return who is called so, None where there is nobody that the asker may see.

    People and service accounts go by their user names, groups by "group:" and their path, such as
    "group:account/default/operators".
    """
    if not name.startswith(GROUP):
        return _users(asker).filter(username=name).first()
    path, _, identifier = name.removeprefix(GROUP).rpartition("/")
    return _groups(asker).filter(scope__path=path, identifier=identifier).first()


def suggestions(asker: Principal) -> list[Suggestion]:
    """Return the first of those that the asker may ask about; two queries whatever their number."""
    users = _users(asker).order_by("username")[:_MOST_SUGGESTED]
    groups = _groups(asker).order_by("scope__path", "identifier").select_related("scope")[:_MOST_SUGGESTED]
    return [
        *(Suggestion(one.username, one.get_full_name()) for one in users),
        *(Suggestion(f"{GROUP}{one.scope.path}/{one.identifier}", one.name) for one in groups),
    ]


def _users(asker: Principal) -> QuerySet[User]:
    people = visible_people(asker).values("pk")
    programs = visible_to(asker, "core_serviceaccount_view", ServiceAccount.objects.all()).values("user_id")
    return User.objects.filter(Q(pk__in=people) | Q(pk__in=programs))


def _groups(asker: Principal) -> QuerySet[UserGroup]:
    return visible_to(asker, "core_usergroup_view", UserGroup.objects.all())
