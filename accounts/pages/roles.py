"""Pages of roles: list, permissions and holders of one role, creation, editing and deletion."""

from collections.abc import Callable
from typing import Any, ClassVar, Final

from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.html import format_html
from django.views.decorators.http import require_safe

from accounts.forms.roles import NewRoleForm, RoleForm
from accounts.pages.granted_roles import (
    VIEW_ARCHIVED,
    DeleteAssignedPage,
    build_holders_context,
    explain_escalation,
)
from accounts.queries.effective_access import describe_permissions_briefly, join_words
from accounts.queries.roles import ROLE_FILTERS, count_assignments, describe_permissions, list_roles
from rbac import operations
from rbac.models import Role, RoleAssignment, Scope
from rbac.operations.roles import (
    INVITATION_PENDING,
    describe_archived_invitations,
    has_pending_invitation,
)
from rbac.permissions import ALWAYS_GRANTED
from rbac.policy import (
    NotVisible,
    can_anywhere,
    get_permissions,
    get_permissions_anywhere,
    get_permissions_over_scope,
    require,
)
from rbac.queries import list_visible_roles
from web.forms.lists import build_name_filter, paginate_list, read_list_options
from web.forms.pages import PageRequest, require_sign_in
from web.forms.resource_pages import CreatePage, Obstacle, ResourcePage, VersionedEditPage

EDIT: Final = "core_role_edit"
DELETE: Final = "core_role_delete"
NOT_GRANTED: Final = "You cannot grant permission to {words}: you do not have it in the whole scope."


def get_role(request: PageRequest, pk: int) -> Role:
    """Return a visible role with its permissions. Raises `NotVisible` (404)."""
    role = _find_role(request, pk)
    if role is None:
        raise NotVisible("This role does not exist, or you cannot view it.")
    return role


def _find_role(request: PageRequest, pk: int) -> Role | None:
    roles = list_visible_roles(request.user).select_related("scope")
    return roles.prefetch_related("permissions").filter(pk=pk).first()


def get_custom_role(request: PageRequest, pk: int) -> Role:
    """Return a visible role that can be changed. Raises `NotVisible` (404)."""
    role = get_role(request, pk)
    if role.builtin:
        raise NotVisible("Built-in roles cannot be changed.")
    return role


def list_permissions(role: Role) -> set[str]:
    """Return the permissions of a role that `get_role` has loaded, with the one that is always granted."""
    return {ALWAYS_GRANTED, *(row.permission for row in role.permissions.all())}


@require_sign_in
@require_safe
def show_roles(request: PageRequest) -> HttpResponse:
    """List the built-in roles and those of the chosen scope."""
    options, scope = read_list_options(request, ROLE_FILTERS), request.current_scope
    roles = list_roles(request.user, scope, options.filter).filter(build_name_filter(options.text))
    page = paginate_list(roles, request, options)
    counts = count_assignments(request.user, page.items)
    context = {
        "page": page,
        "roles": [(role, counts.get(role.pk, 0)) for role in page.items],
        "options": options,
        "may_create": can_anywhere(request.user, EDIT),
    }
    return render(request, "accounts/roles/list.html", context)


@require_sign_in
@require_safe
def show_role(request: PageRequest, pk: int) -> HttpResponse:
    """Show the permissions of a role in words, and the people and groups that have it."""
    role = get_role(request, pk)
    context = {
        "role": role,
        "permissions": describe_permissions(list_permissions(role)),
        "rights": get_permissions(request.user, role.scope) if role.scope is not None else (),
        "may_create": can_anywhere(request.user, EDIT),
        **build_holders_context(request, role.assignments.all()),
    }
    return render(request, "accounts/roles/role.html", context)


class RolePage(ResourcePage[Role]):
    """A page that changes a role."""

    load: ClassVar[Callable[..., Role]] = staticmethod(get_custom_role)
    permission = EDIT
    noun = "role"
    parents = (("Roles", "roles"),)
    detail = "role"

    @property
    def scope(self) -> Scope:
        """Return the scope of the role, which only built-in roles lack."""
        if self.object.scope is None:
            raise NotVisible("Built-in roles cannot be changed.")
        return self.object.scope

    def check_access(self, resource: Role) -> None:
        """Raise `Forbidden` without the permission in the scope of the role, like the operations."""
        if resource.scope is not None:
            require(self.request.user, self.permission, resource.scope)


class RoleFormPage(RolePage):
    """A page with the form of a role."""

    template_name = "accounts/roles/form.html"


class NewRole(RoleFormPage, CreatePage[Role]):
    """Create a role; `?copy=` names the role whose permissions the form starts with."""

    form_class = NewRoleForm
    done = "Role {name} created. Assign it on the page of a person, a group or a service account."

    def get_form_options(self) -> dict[str, Any]:
        """Return the options with the permissions that the user can grant in some scope."""
        grantable = get_permissions_anywhere(self.request.user)
        options = super().get_form_options() | {"grantable": grantable}
        copied = self._find_copied()
        if copied is None:
            return options
        initial = {"name": f"Copy of {copied.name}", "permissions": list_permissions(copied) & grantable}
        return options | {"initial": initial}

    def save(self, form: NewRoleForm) -> Role:
        """Create the role."""
        data = form.cleaned_data
        with explain_escalation(NOT_GRANTED, "permissions"):
            return operations.create_role(
                actor=self.request.user,
                scope=data["in_scope"],
                identifier=data["identifier"],
                name=data["name"],
                permissions=data["permissions"],
            )

    def _find_copied(self) -> Role | None:
        key = self.request.GET.get("copy", "")
        is_number = key.isascii() and key.isdigit() and len(key) < 10
        return _find_role(self.request, int(key)) if is_number else None


class EditRole(RoleFormPage, VersionedEditPage[Role]):
    """Edit the name and the permissions of a role."""

    form_class = RoleForm

    def get_stored(self) -> dict[str, Any]:
        """Return the stored name and permissions."""
        return {"name": self.object.name, "permissions": sorted(list_permissions(self.object))}

    def get_entered(self, form: RoleForm) -> dict[str, Any]:
        """Return the entered name and permissions."""
        return {"name": form.cleaned_data["name"], "permissions": sorted(form.cleaned_data["permissions"])}

    def get_form_options(self) -> dict[str, Any]:
        """Return the options with the permissions that the user can grant, or keep."""
        own = get_permissions_over_scope(self.request.user, self.scope)
        return super().get_form_options() | {"grantable": own | list_permissions(self.object)}

    def get_hint(self) -> str:
        """Return how many assignments the change affects."""
        count = count_assignments(self.request.user, [self.object]).get(self.object.pk, 0)
        if not count:
            return ""
        return f"The change applies at once to {count} assignment{'' if count == 1 else 's'} of this role."

    def save(self, form: RoleForm) -> Role:
        """Save the role."""
        with explain_escalation(NOT_GRANTED, "permissions"), transaction.atomic():
            self.lock_opened_version(form)
            return operations.update_role(actor=self.request.user, role=self.object, **self.get_entered(form))


class DeleteRole(RolePage, DeleteAssignedPage[Role]):
    """Delete a role, after showing who loses which permissions."""

    permission = DELETE
    usage_title = "These people and groups lose the role"
    usage_advice = "Their role assignments are removed at once."
    done = "Role {name} deleted."

    def get_assignments(self) -> QuerySet[RoleAssignment]:
        """Return the assignments of the role."""
        return self.object.assignments.all()

    def get_texts(self) -> list[str]:
        """Return what the holders lose."""
        if not self.usages:
            return ["Nobody has this role."]
        words = join_words(describe_permissions_briefly(list_permissions(self.object)))
        return [format_html("Without another role, its holders can no longer {}.", words)]

    def get_obstacle(self) -> Obstacle | None:
        """Return that an invitation uses the role, or that the user cannot remove its assignments."""
        if has_pending_invitation(self.object):
            return Obstacle(INVITATION_PENDING, "View invitations", reverse("invitations"))
        if archived := describe_archived_invitations(self.object):
            return Obstacle(archived, VIEW_ARCHIVED, reverse("archived-scopes"))
        return super().get_obstacle()

    def delete(self, **values: Any) -> None:
        """Delete the role."""
        operations.delete_role(actor=self.request.user, role=self.object, **values)
