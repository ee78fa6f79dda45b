"""Forms of service accounts and API keys."""

from datetime import datetime, timedelta
from typing import Any, Final

from django import forms
from django.utils import timezone

from guards.limits import KEY_GRACE_SECONDS, NAME_CHARACTERS
from rbac.models import Scope, User
from rbac.permissions import ALWAYS_GRANTED, PERMISSIONS
from rbac.policy import list_member_scopes
from web.forms.page_forms import PageForm, ScopeField
from web.forms.resource_forms import ScopedForm

EDIT: Final = "core_serviceaccount_edit"
EXPIRY_CHOICES: Final = (("", "Never"), ("30", "In 30 days"), ("90", "In 90 days"), ("365", "In a year"))
GRACE_CHOICES: Final = (
    ("0", "Immediately"),
    ("3600", "In an hour"),
    ("86400", "In a day"),
    (str(int(KEY_GRACE_SECONDS)), "In a week"),
)
ALL_PERMISSIONS_CHOICE, READ_ONLY_CHOICE = "", "view"
ACCESS_CHOICES: Final = (
    (ALL_PERMISSIONS_CHOICE, "All permissions of the user"),
    (READ_ONLY_CHOICE, "Read only"),
)


class ServiceAccountForm(PageForm):
    """Form with the name of a service account."""

    name = forms.CharField(
        max_length=int(NAME_CHARACTERS), help_text=("For example the program that uses the key.")
    )
    description = forms.CharField(required=False, max_length=400)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="account-%s", **kwargs)


class NewServiceAccountForm(ScopedForm, ServiceAccountForm):
    """A service account that is not there yet."""

    in_scope = ScopeField(
        help_text="The scope it belongs to. Its permissions come from the roles you assign."
    )

    field_order = ("in_scope", "name", "description")


class NewApiKeyForm(PageForm):
    """An API key that is not there yet."""

    name = forms.CharField(
        max_length=int(NAME_CHARACTERS), help_text=("For example the program that uses the key.")
    )
    within = forms.ModelChoiceField(
        Scope.objects.none(),
        required=False,
        to_field_name="path",
        empty_label="Everywhere",
        label="Scope",
        help_text="The key has no access outside this scope.",
    )
    uses = forms.ChoiceField(choices=ACCESS_CHOICES, required=False, label="Permissions")
    expires = forms.ChoiceField(choices=EXPIRY_CHOICES, required=False, label="Expires")

    def __init__(self, *args: Any, person: User, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="key-%s", **kwargs)
        field = self.fields["within"]
        if isinstance(field, forms.ModelChoiceField):
            field.queryset = list_member_scopes(person).order_by("path")

    @property
    def given(self) -> dict[str, Any]:
        """Return the input in the format of the operation."""
        only_looking = self.cleaned_data["uses"] == READ_ONLY_CHOICE
        return {
            "name": self.cleaned_data["name"],
            "scope": self.cleaned_data["within"],
            "permissions": VIEW_PERMISSIONS if only_looking else (),
            "expires_at": self._expires_at,
        }

    @property
    def _expires_at(self) -> datetime | None:
        days = self.cleaned_data["expires"]
        return timezone.now() + timedelta(days=int(days)) if days else None


class ApiKeyRotationForm(PageForm):
    """When the token that a key has now opens nothing any more."""

    grace = forms.ChoiceField(
        choices=GRACE_CHOICES,
        label="Expire the old key",
        help_text="Until then both keys work, so that you can update programs without interruption.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="key-%s", **kwargs)


VIEW_PERMISSIONS: Final = tuple(p for p in sorted(PERMISSIONS) if p.endswith("_view") or p == ALWAYS_GRANTED)
