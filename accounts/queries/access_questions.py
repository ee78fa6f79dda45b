"""Questions about access in words: "Can … do …?" and "Who can …?", with the assignments that decide."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from accounts.queries.assignment_holders import AssignmentUrls
from accounts.queries.effective_access import join_words
from accounts.queries.granted_roles import VIEW_USERS, describe_scope
from rbac.models import RoleAssignment, Scope, User, UserGroup
from rbac.permissions import PERMISSIONS, RESOURCE_TITLES, RESOURCE_TYPES
from rbac.policy import (
    HasScope,
    PermissionHolder,
    PermissionVerdict,
    Principal,
    explain_permissions,
    filter_visible,
    list_permission_holders,
)
from rbac.policy.resources import get_identities, get_resource_title


@dataclass(frozen=True)
class AccessAction:
    """Action that people ask about: a permission in words, or several that belong together."""

    value: str
    words: str
    permissions: tuple[str, ...]

    @property
    def title(self) -> str:
        return self.words[0].upper() + self.words[1:]

    def applies_to(self, thing: HasScope) -> bool:
        """Return whether one of the permissions is for the type of `thing`; all are for a scope."""
        kinds = get_identities(thing)
        return not kinds or any(PERMISSIONS[each].resource in kinds for each in self.permissions)

    def list_on_any(self, thing: HasScope) -> list[str]:
        """Return the permissions for other types: they count on any resource of the type."""
        kinds = get_identities(thing)
        return [each for each in self.permissions if kinds and PERMISSIONS[each].resource not in kinds]

    def describe(self, thing: Any) -> str:
        """Return the action on `thing` in words: "deploy to environment Production in project Shop"."""
        if isinstance(thing, Scope):
            return f"{self.words} in {describe_scope(thing)}"
        kind = thing.RESOURCE_TYPE
        verb = _DEPLOY_VERBS.get(kind, "") if self is DEPLOY else PERMISSIONS[self.value].verb
        name = getattr(thing, "name", "") or get_identities(thing)[kind]
        return f"{verb} {get_resource_title(kind).lower()} {name} in {describe_scope(thing.scope)}"


_DEPLOY_VERBS: Final = {"environment": "deploy to", "service": "deploy", "pipeline": "deploy with"}
DEPLOY: Final = AccessAction(
    "deploy", "deploy", ("core_pipeline_execute", "core_environment_access", "core_service_access")
)
ACCESS_ACTIONS: Final = {
    action.value: action
    for action in (
        DEPLOY,
        *(AccessAction(each.identifier, each.words, (each.identifier,)) for each in PERMISSIONS.values()),
    )
}


def list_action_choices() -> list[tuple[str, Any]]:
    """Return the actions as choices of a form, by type of resource."""
    choices: list[tuple[str, Any]] = [(DEPLOY.value, DEPLOY.title)]
    for resource in RESOURCE_TYPES:
        actions = [ACCESS_ACTIONS[each.identifier] for each in resource.permissions]
        group = [(action.value, action.title) for action in actions]
        choices.append((RESOURCE_TITLES[resource.identifier], group))
    return choices


@dataclass(frozen=True)
class AccessGround:
    """Assignment that grants something, with the page that shows it if the reader may view that."""

    assignment: RoleAssignment
    url: str
    # The permissions in words if the answer has several grounds.
    words: str = ""

    @property
    def scope(self) -> str:
        return describe_scope(self.assignment.scope)

    @property
    def holder_url(self) -> str:
        """Return the page of the holder."""
        return self.url.partition("#")[0]


@dataclass(frozen=True)
class AccessAnswer:
    """Answer to "Can … do …?" with its grounds, or what is missing."""

    subject: User | UserGroup
    question: str
    is_granted: bool
    grounds: Sequence[AccessGround]
    missing: Sequence[PermissionVerdict]


@dataclass(frozen=True)
class HolderRow:
    """User who can do something, and why."""

    holder: PermissionHolder
    url: str
    grounds: Sequence[AccessGround]


def answer_access_question(
    asker: Principal, subject: User | UserGroup, action: AccessAction, thing: HasScope
) -> AccessAnswer:
    """Return whether `subject` can do `action` on `thing`, and why."""
    verdicts = explain_permissions(subject, thing, action.permissions, action.list_on_any(thing))
    permissions_by_ground: dict[RoleAssignment, list[str]] = {}
    for verdict in verdicts:
        if verdict.is_granted:
            permissions_by_ground.setdefault(verdict.assignments[0], []).append(verdict.permission)
    missing = [verdict for verdict in verdicts if not verdict.is_granted]
    urls = AssignmentUrls(asker, permissions_by_ground)
    is_split = len(permissions_by_ground) > 1
    grounds = [
        AccessGround(
            row,
            urls.get_url(row),
            join_words([PERMISSIONS[each].words for each in permissions]) if is_split else "",
        )
        for row, permissions in permissions_by_ground.items()
    ]
    return AccessAnswer(subject, action.describe(thing), not missing, grounds, missing)


def list_holders(asker: Principal, action: AccessAction, thing: HasScope) -> list[PermissionHolder]:
    """Return the users who can do `action` on `thing` by assignments that the asker may view."""
    visible = filter_visible(asker, VIEW_USERS, RoleAssignment.objects.all())
    return list_permission_holders(thing, action.permissions, visible, action.list_on_any(thing))


def describe_holders(asker: Principal, holders: Sequence[PermissionHolder]) -> list[HolderRow]:
    """Return the holders with their grounds and pages; a constant number of queries."""
    assignments = [row for holder in holders for row in holder.assignments]
    urls = AssignmentUrls(asker, assignments, [holder.user for holder in holders])
    return [
        HolderRow(
            holder,
            urls.get_user_url(holder.user),
            [AccessGround(row, urls.get_url(row)) for row in holder.assignments],
        )
        for holder in holders
    ]
