"""Pages that assign roles and remove role assignments."""

from typing import Any

from django.urls import reverse
from django.utils.html import format_html

from accounts.forms.role_assignments import RoleAssignmentForm
from accounts.pages.granted_roles import ROLE_REFUSED, explain_escalation
from accounts.pages.people import PersonPage
from accounts.pages.service_accounts import ServiceAccountPage
from accounts.pages.user_groups import UserGroupPage
from accounts.queries.user_groups import VIEW_GROUPS
from rbac import operations
from rbac.models import RoleAssignment, Scope, ServiceAccount, User, UserGroup
from rbac.operations.users import MANAGE_USERS
from rbac.policy import can, list_permitted_scopes
from web.forms.pages import PageRequest, get_visible
from web.forms.resource_pages import Breadcrumb, ConfirmPage, FormPage


class AssignRole(FormPage[Any]):
    """Assign a role to the principal of the address."""

    permission = MANAGE_USERS
    form_class = RoleAssignmentForm
    verb = "Assign role to"
    here = "Assign role"
    button = "Assign role"
    refusal_title = "Could not assign the role"

    def get_principal(self) -> dict[str, Any]:
        """Return the principal in the format of the operation."""
        raise NotImplementedError

    def check_access(self, resource: Any) -> None:
        """Do nothing: the form offers the permitted scopes, and raises `Forbidden` without any."""

    def get_form_options(self) -> dict[str, Any]:
        """Return the user and the permission that decide the offered scopes, and the selected scope."""
        user, scope = self.request.user, self.request.current_scope
        return {"person": user, "scope": scope, "permission": MANAGE_USERS}

    def get_draft_scope(self) -> Scope | None:
        """Return the selected scope: a role or a resource group that is created must be visible from it."""
        scopes = list_permitted_scopes(self.request.user, MANAGE_USERS)
        selected = scopes.filter(path=self.request.POST.get("in_scope", "")).first()
        return selected or self.request.current_scope

    def save(self, form: RoleAssignmentForm) -> RoleAssignment:
        """Assign the role."""
        data = form.cleaned_data
        with explain_escalation(ROLE_REFUSED, "role"):
            return operations.assign_role(
                actor=self.request.user,
                scope=data["in_scope"],
                role=data["role"],
                resource_group=data["resource_group"],
                expires_at=form.expires_at,
                **self.get_principal(),
            )

    def get_done_message(self, saved: RoleAssignment) -> str:
        """Return the message after the assignment."""
        return f"{saved.role.name} in {saved.scope.path} assigned to {self.get_name()}."


class AssignRoleToPerson(PersonPage, AssignRole):
    """Assign a role to a person."""

    def get_principal(self) -> dict[str, Any]:
        """Return the person."""
        return {"user": self.object}


class AssignRoleToServiceAccount(ServiceAccountPage, AssignRole):
    """Assign a role to a service account."""

    def get_principal(self) -> dict[str, Any]:
        """Return the user of the service account."""
        return {"user": self.object.user}


class AssignRoleToGroup(UserGroupPage, AssignRole):
    """Assign a role to a group, in its scope or below."""

    def get_principal(self) -> dict[str, Any]:
        """Return the group."""
        return {"group": self.object}

    def get_form_options(self) -> dict[str, Any]:
        """Return the options, with the scope of the group as limit."""
        return {**super().get_form_options(), "below": self.object.scope}


def _get_assignment(request: PageRequest, pk: int) -> RoleAssignment:
    rows = RoleAssignment.objects.select_related("scope", "role", "user__service_account", "group__scope")
    return get_visible(request, "core_user_view", rows, pk=pk)


class RemoveRoleAssignment(ConfirmPage[RoleAssignment]):
    """Remove a role of a person, a group or a service account."""

    load = staticmethod(_get_assignment)
    permission = MANAGE_USERS
    verb = "Remove"
    noun = "role"
    here = "Remove role"
    done = "The {name} was removed."

    def get_name(self) -> str:
        """Return the role with its holder."""
        return f"role {self.object.role.name} of {self.object.user or self.object.group}"

    def get_breadcrumbs(self) -> list[Breadcrumb]:
        """Return the pages of the holder, as far as the reader may view them."""
        user, group = self.object.user, self.object.group
        if user is None:
            groups = [Breadcrumb("Groups", reverse("user-groups"))]
            return [*groups, *self._list_group_page(group)] if group is not None else groups
        if user.kind == User.Kind.SERVICE_ACCOUNT:
            accounts = [Breadcrumb("Service accounts", reverse("service-accounts"))]
            account: ServiceAccount | None = getattr(user, "service_account", None)
            if account is None:
                return accounts
            return [*accounts, Breadcrumb(account.name, reverse("service-account", args=[account.pk]))]
        url = reverse("person", args=[user.pk])
        return [Breadcrumb("People", reverse("people")), Breadcrumb(user.username, url)]

    def get_texts(self) -> list[str]:
        """Return the effect."""
        text = "The permissions of {} in <code>{}</code> and below are withdrawn at once."
        texts: list[str] = [format_html(text, self.object.role.name, self.object.scope.path)]
        if self.object.group is not None:
            texts.append(format_html("Every member of {} loses them.", self.object.group.name))
        return texts

    def perform(self, **values: Any) -> None:
        """Remove the assignment."""
        operations.remove_assignment(actor=self.request.user, assignment=self.object)

    def _list_group_page(self, group: UserGroup) -> list[Breadcrumb]:
        if not can(self.request.user, VIEW_GROUPS, group):
            return []
        return [Breadcrumb(group.name, reverse("user-group", args=[group.pk]))]
