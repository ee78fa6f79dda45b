"""Pages of resource groups: list, detail, resources, creation and deletion."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import render
from django.utils.functional import cached_property
from django.views.decorators.http import require_safe

from accounts.forms.resource_groups import GroupResourcesForm, NewResourceGroupForm, ResourceGroupForm
from accounts.pages.granted_roles import DeleteAssignedPage, build_holders_context, explain_escalation
from accounts.pages.group_additions import AddToGroupPage
from accounts.queries.assignment_holders import list_assignment_holders
from accounts.queries.resource_groups import (
    RESOURCE_GROUP_FILTERS,
    GroupEntry,
    describe_candidates,
    filter_candidates,
    list_resource_groups,
    list_visible_resource_groups,
    summarize_resource_groups,
)
from rbac import operations
from rbac.models import ResourceGroup, ResourceGroupEntry, RoleAssignment
from rbac.policy import NotVisible, can_anywhere, get_permissions, require
from rbac.policy.resources import list_identifiable_types
from web.forms.lists import build_name_filter, paginate_list, read_list_options
from web.forms.pages import PageRequest, require_sign_in
from web.forms.resource_pages import (
    ConfirmPage,
    CreatePage,
    Obstacle,
    ResourcePage,
    VersionedEditPage,
)

EDIT: Final = "core_resourcegroup_edit"
DELETE: Final = "core_resourcegroup_delete"
DEFAULT_TYPE: Final = "pipeline"
MORE_PERMISSIONS: Final = (
    "A role that is limited to this group grants {permission}, which you do not have there."
)


def get_resource_group(request: PageRequest, pk: int) -> ResourceGroup:
    """Return a visible resource group with its entries. Raises `NotVisible` (404)."""
    group = list_visible_resource_groups(request.user).filter(pk=pk).first()
    if group is None:
        raise NotVisible("This resource group does not exist, or you cannot view it.")
    return group


@require_sign_in
@require_safe
def show_resource_groups(request: PageRequest) -> HttpResponse:
    """List the resource groups of the chosen scope with their resources."""
    options, scope = read_list_options(request, RESOURCE_GROUP_FILTERS), request.current_scope
    groups = list_resource_groups(request.user, scope, options.filter)
    page = paginate_list(groups.filter(build_name_filter(options.text)), request, options)
    context = {
        "page": page,
        "groups": summarize_resource_groups(request.user, page.items),
        "options": options,
        "may_create": can_anywhere(request.user, EDIT),
    }
    return render(request, "accounts/resource_groups/list.html", context)


@require_sign_in
@require_safe
def show_resource_group(request: PageRequest, pk: int) -> HttpResponse:
    """Show the resources of a group, and the role assignments that are limited to it."""
    group = get_resource_group(request, pk)
    context = {
        "group": group,
        "entries": [GroupEntry(row) for row in group.entries.all()],
        "rights": get_permissions(request.user, group.scope),
        **build_holders_context(request, group.assignments.all()),
    }
    return render(request, "accounts/resource_groups/group.html", context)


class ResourceGroupPage(ResourcePage[ResourceGroup]):
    """A page that changes a resource group."""

    load: ClassVar[Callable[..., ResourceGroup]] = staticmethod(get_resource_group)
    permission = EDIT
    noun = "resource group"
    parents = (("Resource groups", "resource-groups"),)
    detail = "resource-group"

    def check_access(self, resource: ResourceGroup) -> None:
        """Raise `Forbidden` without the permission in the scope of the group, like the operations."""
        require(self.request.user, self.permission, resource.scope)


class NewResourceGroup(ResourceGroupPage, CreatePage[ResourceGroup]):
    """Create a resource group."""

    template_name = "accounts/resource_groups/form.html"
    form_class = NewResourceGroupForm
    done = "Resource group {name} created. Add single resources, or limit a role to it."

    def save(self, form: NewResourceGroupForm) -> ResourceGroup:
        """Create the group."""
        data = form.cleaned_data
        return operations.create_resource_group(
            actor=self.request.user,
            scope=data["in_scope"],
            name=data["name"],
            identifier=data["identifier"],
            description=data["description"],
            entries=[(resource, "") for resource in data["types"]],
        )


class EditResourceGroup(ResourceGroupPage, VersionedEditPage[ResourceGroup]):
    """Edit the name of a resource group, and the types whose resources all belong to it."""

    template_name = "accounts/resource_groups/form.html"
    form_class = ResourceGroupForm
    fields = ("name", "description", "types")
    hint = "Single resources are added and removed on the page of the group."

    def get_stored(self) -> dict[str, Any]:
        """Return the stored values."""
        group = self.object
        types = [row.resource for row in group.entries.all() if not row.identifier]
        return {"name": group.name, "description": group.description, "types": types}

    def save(self, form: ResourceGroupForm) -> ResourceGroup:
        """Save the group; its single resources stay."""
        data = form.cleaned_data
        single = [(row.resource, row.identifier) for row in self.object.entries.all() if row.identifier]
        with explain_escalation(MORE_PERMISSIONS, "types"), transaction.atomic():
            self.lock_opened_version(form)
            return operations.update_resource_group(
                actor=self.request.user,
                group=self.object,
                name=data["name"],
                description=data["description"],
                entries=[*single, *((resource, "") for resource in data["types"])],
            )


class AddGroupResources(ResourceGroupPage, AddToGroupPage[ResourceGroup]):
    """Search for resources of one type, and add them to a group; `?kind=` names the type."""

    template_name = "accounts/resource_groups/add_resources.html"
    form_class = GroupResourcesForm
    field = "entries"
    verb = "Add resources to"
    here = button = "Add resources"
    refusal_title = "Could not add the resources"

    @cached_property
    def kind(self) -> str:
        """Return the type of the resources to choose from."""
        kind = self.request.GET.get("kind", "")
        return kind if kind in dict(list_identifiable_types()) else DEFAULT_TYPE

    def get_form_options(self) -> dict[str, Any]:
        """Return those of the posted identifiers that can be added."""
        posted = self.request.POST.getlist("entries")
        rows = filter_candidates(self.request.user, self.object, self.kind)
        found = rows.filter(group_identifier__in=posted).values_list("group_identifier", flat=True)
        return {"identifiers": set(found) if posted else ()}

    def list_candidates(self, text: str, limit: int) -> Sequence[Any]:
        """Return the first resources of the type that match the search text."""
        rows = filter_candidates(self.request.user, self.object, self.kind, text)
        return describe_candidates(self.kind, rows, limit)

    def get_context(self, form: Any) -> dict[str, Any]:
        """Return the candidates and the types to choose from."""
        return super().get_context(form) | {"kind": self.kind, "kinds": list_identifiable_types()}

    def save(self, form: GroupResourcesForm) -> list[str]:
        """Add the selected resources."""
        identifiers = sorted(form.cleaned_data["entries"])
        with explain_escalation(MORE_PERMISSIONS, "entries"):
            operations.add_resource_group_entries(
                actor=self.request.user,
                group=self.object,
                entries=[(self.kind, identifier) for identifier in identifiers],
            )
        return identifiers


def _get_group_of_entry(request: PageRequest, pk: int, entry: int) -> ResourceGroup:
    """Return a visible group with this entry. Raises `NotVisible` (404)."""
    group = get_resource_group(request, pk)
    if not any(row.pk == entry for row in group.entries.all()):
        raise NotVisible("This resource is not in the group, or you cannot view the group.")
    return group


class RemoveGroupResource(ResourceGroupPage, ConfirmPage[ResourceGroup]):
    """Remove a resource, or all resources of a type, from a group."""

    load = staticmethod(_get_group_of_entry)
    verb = "Remove"
    here = "Remove resource"
    noun = "resource"
    done = "{name} removed."
    usage_title = "These people and groups lose access to it"
    usage_advice = "Their roles are limited to this group. Other roles stay."
    entry: ResourceGroupEntry

    def prepare(self) -> None:
        """Load the group and the entry. Raises `NotVisible` and `Forbidden`."""
        super().prepare()
        self.entry = next(row for row in self.object.entries.all() if row.pk == self.kwargs["entry"])

    def get_name(self) -> str:
        """Return the entry with the group."""
        title = GroupEntry(self.entry).title
        return f"{title[0].lower()}{title[1:]} from {self.object.name}"

    def get_usages(self) -> Any:
        """Return the holders of the roles that are limited to the group."""
        return list_assignment_holders(self.request.user, self.object.assignments.all())

    def get_texts(self) -> list[str]:
        """Return that nobody is affected."""
        return [] if self.usages else ["No role is limited to this group, so nobody loses access."]

    def get_obstacle(self) -> Obstacle | None:
        """Return none: roles that are limited to the group stay."""
        return None

    def get_done_message(self, name: str) -> str:
        """Return the message with the entry."""
        return self.done.format(name=GroupEntry(self.entry).title)

    def perform(self, **values: Any) -> None:
        """Remove the entry."""
        operations.remove_resource_group_entry(
            actor=self.request.user, group=self.object, entry=(self.entry.resource, self.entry.identifier)
        )


class DeleteResourceGroup(ResourceGroupPage, DeleteAssignedPage[ResourceGroup]):
    """Delete a resource group, after showing who loses the roles that are limited to it."""

    permission = DELETE
    usage_title = "These people and groups lose the roles that are limited to it"
    usage_advice = (
        "Their role assignments are removed at once. Without the group they would apply everywhere."
    )
    done = "Resource group {name} deleted."

    def get_assignments(self) -> QuerySet[RoleAssignment]:
        """Return the assignments that are limited to the group."""
        return self.object.assignments.all()

    def get_texts(self) -> list[str]:
        """Return that nobody is affected, and that resources stay."""
        affected = [] if self.usages else ["No role is limited to this group."]
        return [*affected, "Its resources stay as they are."]

    def delete(self, **values: Any) -> None:
        """Delete the group."""
        operations.delete_resource_group(actor=self.request.user, group=self.object, **values)
