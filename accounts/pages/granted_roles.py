"""Roles on pages of their holders, and refusals of changes that would grant more than the actor has."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db.models import QuerySet

from accounts.queries.access_checks import build_check_url
from accounts.queries.effective_access import list_scope_access
from accounts.queries.granted_roles import list_granted_roles
from accounts.queries.user_groups import get_visible_group_ids
from rbac.models import RoleAssignment, User, UserGroup
from rbac.operations.users import MANAGE_USERS
from rbac.policy import Forbidden
from web.forms.pages import PageRequest, get_permitted_ids

MAX_ROLES: Final = 200
ROLE_REFUSED: Final = "You cannot assign this role: you do not have {permission}."


def build_roles_context(
    request: PageRequest, principal: User | UserGroup, assignments: QuerySet[RoleAssignment]
) -> dict[str, Any]:
    """Return the template context of the roles of a principal and of its effective access."""
    roles = list_granted_roles(request.user, assignments, request.current_scope, MAX_ROLES)
    rows = [role.assignment for role in roles]
    return {
        "roles": roles,
        "scope_access": list_scope_access(roles, request.current_scope),
        "check_url": build_check_url(principal),
        "removable": get_permitted_ids(request, MANAGE_USERS, RoleAssignment, rows),
        "visible_groups": get_visible_group_ids(request.user, roles),
        "max_roles": MAX_ROLES,
    }


@contextmanager
def explain_escalation(message: str, field: str = NON_FIELD_ERRORS) -> Iterator[None]:
    """Turn the refusal of a permission that the actor lacks into a `ValidationError`, at a field if named.

    `message` names the `{permission}`.
    """
    try:
        yield
    except Forbidden as error:
        raise ValidationError({field: message.format(permission=error.permission)}) from error
