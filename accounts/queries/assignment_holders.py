"""Holders of role assignments: their pages, and a list of those who lose a role with a deletion."""

from collections.abc import Iterable

from django.db.models import QuerySet
from django.urls import reverse

from accounts.queries.granted_roles import (
    MAX_LISTED_ASSIGNMENTS,
    VIEW_USERS,
    describe_scope,
    list_visible_assignments,
)
from accounts.queries.user_groups import VIEW_GROUPS
from rbac.models import RoleAssignment, ServiceAccount, User, UserGroup
from rbac.policy import Principal, filter_visible
from web.usages import ResourceUsage, ResourceUsages


class AssignmentUrls:
    """Pages of the holders of assignments, for those that a reader may view."""

    def __init__(
        self, asker: Principal, assignments: Iterable[RoleAssignment], users: Iterable[User] = ()
    ) -> None:
        rows = {row.pk: row for row in assignments}
        visible = filter_visible(asker, VIEW_USERS, RoleAssignment.objects.filter(pk__in=rows))
        self._visible = set(visible.values_list("pk", flat=True))
        group_ids = [row.group_id for row in rows.values() if row.group_id is not None]
        groups = filter_visible(asker, VIEW_GROUPS, UserGroup.objects.filter(pk__in=group_ids))
        self._groups = set(groups.values_list("pk", flat=True))
        user_ids = {row.user_id for row in rows.values() if row.user_id is not None}
        user_ids |= {user.pk for user in users}
        programs = ServiceAccount.objects.filter(user__in=user_ids)
        visible_programs = filter_visible(asker, "core_serviceaccount_view", programs)
        self._programs = dict(visible_programs.values_list("user_id", "pk"))

    def get_url(self, assignment: RoleAssignment) -> str:
        """Return the page that shows an assignment, or an empty text."""
        anchor = f"#assignment-{assignment.pk}"
        if assignment.user is not None:
            url = self.get_user_url(assignment.user) if assignment.pk in self._visible else ""
            return f"{url}{anchor}" if url else ""
        if assignment.group_id not in self._groups:
            return ""
        return f"{reverse('user-group', args=[assignment.group_id])}{anchor}"

    def get_user_url(self, user: User) -> str:
        """Return the page of a person or of a visible service account, or an empty text."""
        if user.kind == User.Kind.PERSON:
            return reverse("person", args=[user.pk])
        key = self._programs.get(user.pk)
        return reverse("service-account", args=[key]) if key is not None else ""


def list_assignment_holders(principal: Principal, rows: QuerySet[RoleAssignment]) -> ResourceUsages:
    """Return the holders of assignments, each with its scope; a constant number of queries."""
    assignments = list(list_visible_assignments(principal, rows)[:MAX_LISTED_ASSIGNMENTS])
    urls = AssignmentUrls(principal, assignments)
    holders = (ResourceUsage(_describe_holder(row), urls.get_url(row)) for row in assignments)
    return ResourceUsages(tuple(holders), rows.count() - len(assignments))


def _describe_holder(assignment: RoleAssignment) -> str:
    limits = assignment.resource_group
    name = assignment.group.name if assignment.group is not None else str(assignment.user)
    return f"{name} in {describe_scope(assignment.scope)}{f' on {limits.name}' if limits is not None else ''}"
