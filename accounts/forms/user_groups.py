"""Forms of user groups."""

from typing import Any

from django import forms
from django.db.models import QuerySet

from guards.limits import NAME_CHARACTERS
from rbac.models import User
from web.forms.page_forms import PageForm, ScopeField
from web.forms.resource_forms import IdentifierField, ScopedForm, VersionField


class UserGroupForm(PageForm):
    """Form with the name of a group, and the provider's group that manages its members."""

    name = forms.CharField(max_length=int(NAME_CHARACTERS))
    external_name = forms.CharField(
        required=False,
        max_length=255,
        label="Single sign-on group",
        help_text="Name of the group at the provider. It then manages the members at each sign-in.",
        widget=forms.TextInput(attrs={"spellcheck": "false", "autocapitalize": "none"}),
    )
    version = VersionField()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="group-%s", **kwargs)


class NewUserGroupForm(ScopedForm, UserGroupForm):
    """A group that is not there yet."""

    in_scope = ScopeField(help_text="The group can have roles in this scope and below.")
    identifier = IdentifierField(
        help_text="Used in the API and in pipelines. It cannot be changed. Generated from the name if empty."
    )

    field_order = ("name", "in_scope", "identifier", "external_name")


class GroupMembersForm(PageForm):
    """Choice of people to add to a group."""

    users = forms.ModelMultipleChoiceField(
        User.objects.none(),
        label="People",
        error_messages={"required": "Select at least one person."},
    )

    def __init__(self, *args: Any, candidates: QuerySet[User], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field: Any = self.fields["users"]
        field.queryset = candidates
