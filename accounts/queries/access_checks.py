"""Lookup of the principal and the resource that an access check is about."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet
from django.urls import reverse

from accounts.queries.granted_roles import VIEW_USERS
from rbac.models import Scope, ServiceAccount, User, UserGroup
from rbac.policy import Forbidden, HasScope, Principal, can, filter_visible, list_member_scopes
from rbac.policy.resources import filter_by_identifier, get_resource_models, get_type_view_permission
from rbac.queries import list_visible_users


def get_member_scope(asker: Principal, path: str) -> Scope | None:
    """Return the scope with that path, or None if the caller is not a member."""
    return list_member_scopes(asker).filter(path=path).first()


def require_checks_of_others(asker: Principal, thing: HasScope) -> None:
    """Require the permission to check the access of others to a visible resource. Raises `Forbidden`."""
    scope = thing if isinstance(thing, Scope) else thing.scope
    if not can(asker, VIEW_USERS, scope):
        raise Forbidden(VIEW_USERS)


def get_resource_by_id(asker: Principal, kind: str, key: str) -> HasScope | None:
    """Return a resource by its id, or None if the caller cannot view it."""
    try:
        return _get_visible_resource(asker, kind, get_resource_models()[kind]._default_manager.filter(pk=key))
    except (ValueError, ValidationError, OverflowError):
        # A text that is no key of this table is one that nothing has.
        return None


def get_resource_by_identifier(
    asker: Principal, kind: str, identifier: str, scope_path: str
) -> HasScope | None:
    """Return a resource by its identifier in a scope, or None if the caller cannot view it.

    Raises `ValidationError` for a kind without identifiers.
    """
    return _get_visible_resource(asker, kind, filter_by_identifier(kind, identifier, scope_path))


def _get_visible_resource(asker: Principal, kind: str, rows: QuerySet[Any]) -> HasScope | None:
    row: HasScope | None = filter_visible(asker, get_type_view_permission(kind), rows).first()
    return row


GROUP_PREFIX = "group:"
_MOST_SUGGESTIONS = 50


@dataclass(frozen=True)
class PrincipalSuggestion:
    """Suggested principal with its input value and name."""

    value: str
    label: str


def get_principal_by_name(asker: Principal, name: str) -> User | UserGroup | None:
    """Return the principal with this name, or None if the caller cannot view it.

    Users and service accounts have their user names. Groups have "group:" and their path, such as
    "group:account/default/operators".
    """
    if not name.startswith(GROUP_PREFIX):
        return _list_visible_users(asker).filter(username=name).first()
    path, _, identifier = name.removeprefix(GROUP_PREFIX).rpartition("/")
    return _list_visible_groups(asker).filter(scope__path=path, identifier=identifier).first()


def get_principal_name(principal: User | UserGroup) -> str:
    """Return the name by which `get_principal_by_name` finds a principal."""
    if isinstance(principal, User):
        return principal.username
    return f"{GROUP_PREFIX}{principal.scope.path}/{principal.identifier}"


def build_check_url(principal: User | UserGroup) -> str:
    """Return the page that lists every permission of a principal."""
    return f"{reverse('effective-access')}?{urlencode({'who': get_principal_name(principal)})}"


def list_principal_suggestions(asker: Principal) -> list[PrincipalSuggestion]:
    """Return the first principals that the caller may check; two queries in all."""
    users = _list_visible_users(asker).order_by("username")[:_MOST_SUGGESTIONS]
    groups = (
        _list_visible_groups(asker)
        .order_by("scope__path", "identifier")
        .select_related("scope")[:_MOST_SUGGESTIONS]
    )
    return [
        *(PrincipalSuggestion(user.username, user.get_full_name()) for user in users),
        *(PrincipalSuggestion(get_principal_name(group), group.name) for group in groups),
    ]


def _list_visible_users(asker: Principal) -> QuerySet[User]:
    people = list_visible_users(asker).values("pk")
    programs = filter_visible(asker, "core_serviceaccount_view", ServiceAccount.objects.all()).values(
        "user_id"
    )
    return User.objects.filter(Q(pk__in=people) | Q(pk__in=programs))


def _list_visible_groups(asker: Principal) -> QuerySet[UserGroup]:
    return filter_visible(asker, "core_usergroup_view", UserGroup.objects.all())
