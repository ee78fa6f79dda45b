"""Pages that assign roles and remove role assignments."""

from typing import Any

from django.core.exceptions import ValidationError
from django.urls import reverse
from django.utils.html import format_html

from accounts.forms.role_assignments import RoleAssignmentForm
from accounts.pages.people import PersonPage
from rbac import operations
from rbac.models import RoleAssignment, User
from rbac.operations.users import MANAGE_USERS
from rbac.policy import Forbidden
from web.forms.pages import PageRequest, get_visible
from web.forms.resource_pages import Breadcrumb, ConfirmPage, FormPage


class AssignRoleToPerson(PersonPage, FormPage[Any]):
    """Assign a role to a person."""

    permission = MANAGE_USERS
    form_class = RoleAssignmentForm
    verb = "Assign role to"
    here = "Assign role"
    button = "Assign role"
    refusal_title = "Could not assign the role"

    def check_access(self, resource: Any) -> None:
        """Do nothing: the form offers the permitted scopes, and raises `Forbidden` without any."""

    def get_form_options(self) -> dict[str, Any]:
        """Return the user and the permission that decide the offered scopes, and the selected scope."""
        user, scope = self.request.user, self.request.current_scope
        return {"person": user, "scope": scope, "permission": MANAGE_USERS}

    def save(self, form: RoleAssignmentForm) -> RoleAssignment:
        """Assign the role."""
        data = form.cleaned_data
        try:
            return operations.assign_role(
                actor=self.request.user,
                scope=data["in_scope"],
                role=data["role"],
                resource_group=data["resource_group"],
                user=self.object,
            )
        except Forbidden as error:
            message = f"You cannot assign this role: you do not have {error.permission}."
            raise ValidationError({"role": message}) from error

    def get_done_message(self, saved: RoleAssignment) -> str:
        """Return the message after the assignment."""
        return f"{saved.role.name} in {saved.scope.path} assigned to {self.get_name()}."


def _get_assignment(request: PageRequest, pk: int) -> RoleAssignment:
    rows = RoleAssignment.objects.select_related("scope", "role", "user__service_account", "group")
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
        """Return the pages of the holder."""
        user = self.object.user
        if user is None:
            return [Breadcrumb("People", reverse("people"))]
        if user.kind == User.Kind.SERVICE_ACCOUNT:
            account = user.service_account
            url = reverse("service-account", args=[account.pk])
            return [
                Breadcrumb("Service accounts", reverse("service-accounts")),
                Breadcrumb(account.name, url),
            ]
        url = reverse("person", args=[user.pk])
        return [Breadcrumb("People", reverse("people")), Breadcrumb(user.username, url)]

    def get_texts(self) -> list[str]:
        """Return the effect."""
        text = "The permissions of {} in <code>{}</code> and below are withdrawn at once."
        return [format_html(text, self.object.role.name, self.object.scope.path)]

    def perform(self, **values: Any) -> None:
        """Remove the assignment."""
        operations.remove_assignment(actor=self.request.user, assignment=self.object)
