"""Parts of pages that show or change role assignments."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db.models import QuerySet
from django.urls import reverse

from accounts.queries.access_checks import build_check_url
from accounts.queries.assignment_holders import list_assignment_holders
from accounts.queries.effective_access import list_scope_access
from accounts.queries.granted_roles import list_granted_roles
from accounts.queries.user_groups import get_visible_group_ids
from rbac.models import RoleAssignment, User, UserGroup
from rbac.operations.roles import describe_archived_assignments
from rbac.operations.users import MANAGE_USERS
from rbac.permissions import PERMISSIONS
from rbac.policy import Forbidden, build_not_archived_filter, list_permitted_scopes
from web.forms.pages import PageRequest, get_permitted_ids
from web.forms.resource_pages import DeletePage, Notice, Obstacle
from web.http.problems import ResourceInUse
from web.usages import ResourceUsages

Row = TypeVar("Row")

MAX_ROLES: Final = 200
MAX_HOLDERS: Final = 200
CANNOT_REMOVE: Final = (
    "Role assignments use it in scopes where you do not have {permission}. Ask someone who has it."
)
VIEW_ARCHIVED: Final = "View archived scopes"
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


def build_holders_context(request: PageRequest, rows: QuerySet[RoleAssignment]) -> dict[str, Any]:
    """Return the template context of the holders of assignments."""
    holders = list_granted_roles(request.user, rows, request.current_scope, MAX_HOLDERS)
    return {
        "holders": holders,
        "visible_groups": get_visible_group_ids(request.user, holders),
        "max_holders": MAX_HOLDERS,
    }


class DeleteAssignedPage(DeletePage[Row]):
    """Deletion of a role or a resource group, which takes the role assignments that refer to it along."""

    although_used = "Remove these role assignments too"

    def get_assignments(self) -> QuerySet[RoleAssignment]:
        """Return the assignments that are removed with the resource."""
        raise NotImplementedError

    def get_usages(self) -> ResourceUsages:
        """Return the holders who lose a role."""
        return list_assignment_holders(self.request.user, self.get_assignments())

    def get_obstacle(self) -> Obstacle | None:
        """Return that the user cannot remove some of the assignments, or nobody because of their scope."""
        scopes = list_permitted_scopes(self.request.user, MANAGE_USERS)
        rows = self.get_assignments().filter(build_not_archived_filter("scope__"))
        if rows.exclude(scope__in=scopes.values("pk")).exists():
            return Obstacle(CANNOT_REMOVE.format(permission=MANAGE_USERS))
        if archived := describe_archived_assignments(self.get_assignments()):
            return Obstacle(archived, VIEW_ARCHIVED, reverse("archived-scopes"))
        return None

    def get_notice(self) -> Notice | None:
        """Return the holders, unless there is nothing to confirm."""
        return None if self.get_obstacle() else super().get_notice()

    def perform(self, **values: Any) -> None:
        """Delete the resource with its assignments, or raise `ValidationError`."""
        if self.usages and not values.get("although_used"):
            raise ResourceInUse(f"{self.usages} would lose a role.")
        with explain_escalation(CANNOT_REMOVE):
            self.delete(**values)

    def delete(self, **values: Any) -> None:
        """Call the operation."""
        raise NotImplementedError


@contextmanager
def explain_escalation(message: str, field: str = NON_FIELD_ERRORS) -> Iterator[None]:
    """Turn the refusal of a permission that the actor lacks into a `ValidationError`, at a field if named.

    `message` names the `{permission}`, or describes it in `{words}`.
    """
    try:
        yield
    except Forbidden as error:
        text = message.format(permission=error.permission, words=PERMISSIONS[error.permission].words)
        raise ValidationError({field: text}) from error
