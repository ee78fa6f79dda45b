"""Pages of user groups: list, detail, members, creation and deletion."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.html import format_html
from django.views.decorators.http import require_safe

from accounts.forms.user_groups import GroupMembersForm, NewUserGroupForm, UserGroupForm
from accounts.pages.granted_roles import VIEW_ARCHIVED, build_roles_context, explain_escalation
from accounts.pages.group_additions import AddToGroupPage
from accounts.queries.user_groups import (
    GROUP_FILTERS,
    VIEW_GROUPS,
    describe_members,
    list_candidates,
    list_groups,
    list_members,
    summarize_groups,
)
from rbac import operations
from rbac.models import User, UserGroup
from rbac.operations.roles import describe_archived_assignments
from rbac.operations.user_groups import MANAGE_USER_GROUPS, MEMBERS_FROM_PROVIDER
from rbac.operations.users import MANAGE_USERS
from rbac.policy import (
    NotVisible,
    build_below_filter,
    can,
    can_anywhere,
    list_permitted_scopes,
)
from web.forms.lists import build_name_filter, paginate_list, read_list_options, read_search_text
from web.forms.pages import PageRequest, get_visible, require_sign_in
from web.forms.resource_pages import (
    ConfirmPage,
    CreatePage,
    DeletePage,
    Obstacle,
    ResourcePage,
    VersionedEditPage,
)
from web.http.pagination import paginate_queryset

MORE_PERMISSIONS: Final = "This group has roles with {permission}, which you do not have in their scope."


def get_user_group(request: PageRequest, pk: int) -> UserGroup:
    """Return a visible group. Raises `NotVisible` (404)."""
    return get_visible(request, VIEW_GROUPS, UserGroup.objects.select_related("scope"), pk=pk)


@require_sign_in
@require_safe
def show_user_groups(request: PageRequest) -> HttpResponse:
    """List the groups of the chosen scope with their roles."""
    options, scope = read_list_options(request, GROUP_FILTERS), request.current_scope
    groups = list_groups(request.user, scope, options.filter).filter(build_name_filter(options.text))
    page = paginate_list(groups, request, options)
    context = {
        "page": page,
        "groups": summarize_groups(request.user, page.items, scope),
        "options": options,
        "may_create": can_anywhere(request.user, MANAGE_USER_GROUPS),
    }
    return render(request, "accounts/groups/list.html", context)


@require_sign_in
@require_safe
def show_user_group(request: PageRequest, pk: int) -> HttpResponse:
    """Show a group with its roles and members; `?q=` searches the members."""
    group, text = get_user_group(request, pk), read_search_text(request)
    page = paginate_queryset(
        list_members(request.user, group, text), request, order="username", oldest_first=True
    )
    context = {
        "group": group,
        "page": page,
        "members": describe_members(request.user, page.items),
        "text": text,
        **build_roles_context(request, group, group.assignments.all()),
        "may_assign": _can_assign(request, group),
        "may_manage": can(request.user, MANAGE_USER_GROUPS, group),
    }
    return render(request, "accounts/groups/group.html", context)


def _can_assign(request: PageRequest, group: UserGroup) -> bool:
    """Return whether the user may assign roles in the scope of the group or below."""
    scopes = list_permitted_scopes(request.user, MANAGE_USERS)
    return scopes.filter(build_below_filter(group.scope, "pk")).exists()


class UserGroupPage(ResourcePage[UserGroup]):
    """A page about a group."""

    load: ClassVar[Callable[..., UserGroup]] = staticmethod(get_user_group)
    permission = MANAGE_USER_GROUPS
    noun = "group"
    parents = (("Groups", "user-groups"),)
    detail = "user-group"


class NewUserGroup(UserGroupPage, CreatePage[UserGroup]):
    """Create a group."""

    form_class = NewUserGroupForm
    done = "Group {name} created. Add members and assign roles."

    def save(self, form: NewUserGroupForm) -> UserGroup:
        """Create the group."""
        data = form.cleaned_data
        return operations.create_user_group(
            actor=self.request.user,
            scope=data["in_scope"],
            name=data["name"],
            identifier=data["identifier"],
            external_name=data["external_name"],
        )


class EditUserGroup(UserGroupPage, VersionedEditPage[UserGroup]):
    """Rename a group, or link it to a group of the provider."""

    form_class = UserGroupForm
    fields = ("name", "external_name")
    hint = (
        "Its identifier and roles do not change. Another single sign-on group removes the members; those of"
        " the provider's group return at their next sign-in."
    )

    def save(self, form: UserGroupForm) -> UserGroup:
        """Save the group."""
        with explain_escalation(MORE_PERMISSIONS, "external_name"), transaction.atomic():
            self.lock_opened_version(form)
            return operations.update_user_group(
                actor=self.request.user, group=self.object, **self.get_entered(form)
            )


class DeleteUserGroup(UserGroupPage, DeletePage[UserGroup]):
    """Delete a group without roles."""

    done = "Group {name} deleted."

    def get_texts(self) -> list[str]:
        """Return the effect on the members, and on pipelines."""
        count = self.object.users.count()
        members = f"Its {count} members stay users." if count != 1 else "Its member stays a user."
        approvals = "Approval steps that name it no longer ask its members."
        return [members if count else "It has no members.", approvals]

    def get_obstacle(self) -> Obstacle | None:
        """Return that the group still has roles, or which scope hides some of them."""
        if archived := describe_archived_assignments(self.object.assignments.all()):
            return Obstacle(archived, VIEW_ARCHIVED, reverse("archived-scopes"))
        count = self.object.assignments.count()
        if not count:
            return None
        roles = "1 role" if count == 1 else f"{count} roles"
        url = reverse("user-group", args=[self.object.pk])
        return Obstacle(f"This group has {roles}. Remove them first.", "View roles", url)

    def perform(self, **values: Any) -> None:
        """Delete the group."""
        operations.delete_user_group(actor=self.request.user, group=self.object)


class AddGroupMembers(UserGroupPage, AddToGroupPage[UserGroup]):
    """Search for people, and add them to a group."""

    template_name = "accounts/groups/add_members.html"
    form_class = GroupMembersForm
    field = "users"
    verb = "Add members to"
    here = button = "Add members"
    refusal_title = "Could not add the members"

    def get_form_options(self) -> dict[str, Any]:
        """Return the people who can be added."""
        return {"candidates": list_candidates(self.request.user, self.object)}

    def list_candidates(self, text: str, limit: int) -> Sequence[Any]:
        """Return the first people that match the search text."""
        return list(list_candidates(self.request.user, self.object, text)[:limit])

    def save(self, form: GroupMembersForm) -> list[User]:
        """Add the selected people."""
        people = list(form.cleaned_data["users"])
        with explain_escalation(MORE_PERMISSIONS, "users"):
            operations.add_group_members(actor=self.request.user, group=self.object, users=people)
        return people


def _get_membership(request: PageRequest, pk: int, user: int) -> UserGroup:
    """Return a visible group with this member. Raises `NotVisible` (404)."""
    group = get_user_group(request, pk)
    if not group.users.filter(pk=user).exists():
        raise NotVisible("This user is not a member, or you cannot view the group.")
    return group


class RemoveGroupMember(UserGroupPage, ConfirmPage[UserGroup]):
    """Remove a member from a group."""

    load = staticmethod(_get_membership)
    verb = "Remove"
    noun = "member"
    here = "Remove member"
    done = "{name} removed."
    # The names of the member and of the group stay after the operation.
    member: User

    def prepare(self) -> None:
        """Load the group and the member. Raises `NotVisible` and `Forbidden`."""
        super().prepare()
        self.member = self.object.users.get(pk=self.kwargs["user"])

    def get_name(self) -> str:
        """Return the member with the group."""
        return f"{self.member.username} from {self.object.name}"

    def get_texts(self) -> list[str]:
        """Return the effect."""
        text = "{} loses the roles of {} at once. Other roles stay."
        return [format_html(text, self.member.username, self.object.name)]

    def get_obstacle(self) -> Obstacle | None:
        """Return that single sign-on manages the members."""
        return Obstacle(MEMBERS_FROM_PROVIDER) if self.object.external_name else None

    def perform(self, **values: Any) -> None:
        """Remove the member."""
        operations.remove_group_member(actor=self.request.user, group=self.object, user=self.member)
