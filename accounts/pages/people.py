"""Pages of people: list, detail, and actions of administrators."""

from typing import Any, Final

from django.http import HttpResponse
from django.shortcuts import render
from django.utils.html import format_html
from django.views.decorators.http import require_safe

from accounts.authentication.sessions import disable_user, enable_user
from accounts.authentication.sign_in_methods import PASSKEYS_ONLY, signs_in_with_passkeys_only
from accounts.authentication.two_factor import has_two_factor, reset_two_factor
from accounts.pages.access_checks import build_question_context
from accounts.pages.granted_roles import build_roles_context
from accounts.queries.people import (
    PERSON_FILTERS,
    build_person_filter,
    get_people_with_sign_in,
    list_people,
    summarize_people,
)
from accounts.queries.user_groups import VIEW_GROUPS
from rbac.models import Scope, User
from rbac.operations.escalation_checks import list_user_assignments
from rbac.operations.users import MANAGE_USERS
from rbac.policy import Forbidden, NotVisible, can, can_anywhere, filter_visible
from web.forms.lists import paginate_list, read_list_options
from web.forms.pages import PageRequest, require_sign_in
from web.forms.resource_pages import ConfirmPage, Obstacle, ResourcePage

MAX_GROUPS: Final = 100


def get_person(request: PageRequest, pk: int) -> User:
    """Return a visible person. Raises `NotVisible` (404)."""
    person = get_people_with_sign_in(request.user).filter(pk=pk).first()
    if person is None:
        raise NotVisible("This user does not exist, or you cannot view it.")
    return person


@require_sign_in
@require_safe
def show_people(request: PageRequest) -> HttpResponse:
    """List the people of the chosen scope with their roles."""
    options, scope = read_list_options(request, PERSON_FILTERS), request.current_scope
    people = list_people(request.user, scope).filter(build_person_filter(options.text, options.filter))
    page = paginate_list(people, request, options, name="username")
    context = {
        "page": page,
        "people": summarize_people(request.user, page.items, scope),
        "options": options,
        "may_invite": can_anywhere(request.user, MANAGE_USERS),
        **build_question_context(request),
    }
    return render(request, "accounts/people/list.html", context)


@require_sign_in
@require_safe
def show_person(request: PageRequest, pk: int) -> HttpResponse:
    """Show a person with their roles and groups."""
    person = get_person(request, pk)
    groups = person.user_groups.select_related("scope").order_by("name", "pk")
    context = {
        "person": person,
        **build_roles_context(request, person, list_user_assignments(person)),
        "groups": filter_visible(request.user, VIEW_GROUPS, groups)[:MAX_GROUPS],
        "max_groups": MAX_GROUPS,
        "may_assign": can_anywhere(request.user, MANAGE_USERS),
        "may_manage": request.user.pk != person.pk and _can_manage_users(request),
    }
    return render(request, "accounts/people/person.html", context)


def _can_manage_users(request: PageRequest) -> bool:
    return can(request.user, MANAGE_USERS, Scope.objects.account())


class PersonPage(ResourcePage[User]):
    """A page about a person."""

    load = staticmethod(get_person)
    permission = MANAGE_USERS
    noun = "user"
    parents = (("People", "people"),)
    detail = "person"


class PersonActionPage(PersonPage, ConfirmPage[User]):
    """Confirmation page of an action that needs the permission on the whole account."""

    def check_access(self, resource: Any) -> None:
        """Raise `Forbidden` without the permission in the account, where users belong."""
        if not _can_manage_users(self.request):
            raise Forbidden(self.permission)

    def get_obstacle(self) -> Obstacle | None:
        """Return that administrators cannot do this to themselves."""
        if self.object.pk == self.request.user.pk:
            return Obstacle("This is your own user. Ask another administrator.")
        return None


class DisableUser(PersonActionPage):
    """Disable a user."""

    verb = "Disable"
    done = "{name} disabled."

    def get_texts(self) -> list[str]:
        """Return the effects."""
        text = "{} can no longer sign in. Open sessions end and API keys stop working at once."
        return [
            format_html(text, self.object.username),
            "Roles and groups stay. Enable the user again to restore access.",
        ]

    def perform(self, **values: Any) -> None:
        """Disable the user."""
        disable_user(actor=self.request.user, person=self.object)


class EnableUser(PersonActionPage):
    """Enable a disabled user."""

    verb = "Enable"
    done = "{name} enabled."

    def get_texts(self) -> list[str]:
        """Return the effects."""
        return [format_html("{} can sign in again, with the same roles.", self.object.username)]

    def perform(self, **values: Any) -> None:
        """Enable the user."""
        enable_user(actor=self.request.user, person=self.object)


class ResetSecondFactor(PersonActionPage):
    """Remove the second factor of a user who lost it."""

    verb = "Reset"
    noun = "second factor"
    here = "Reset second factor"
    done = "The {name} was reset."

    def get_name(self) -> str:
        """Return the second factor with its owner."""
        return f"second factor of {self.object.username}"

    def get_texts(self) -> list[str]:
        """Return the effects."""
        text = (
            "The authenticator app, passkeys and recovery codes of {} stop working. The next sign-in needs"
            " {} alone. Verify the identity of the person first."
        )
        method = "the password" if self.object.has_usable_password() else "single sign-on"
        return [format_html(text, self.object.username, method)]

    def get_obstacle(self) -> Obstacle | None:
        """Return that there is no second factor, that no other way in is left, or that it is one's own."""
        if not has_two_factor(self.object):
            return Obstacle("This user has no second factor.")
        if signs_in_with_passkeys_only(self.object):
            return Obstacle(PASSKEYS_ONLY)
        return super().get_obstacle()

    def perform(self, **values: Any) -> None:
        """Remove the second factor."""
        reset_two_factor(actor=self.request.user, person=self.object)
