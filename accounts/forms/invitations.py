"""Forms of invitations."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from django import forms
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError

from accounts.forms.role_assignments import NEW_ROLE, RoleField, list_assignable_roles
from guards.limits import INVITATION_DAYS
from rbac.models import Role, User
from rbac.policy import Principal
from web.forms.drafts import NewResource
from web.forms.page_forms import PageForm, ScopeField
from web.forms.resource_forms import ScopedForm

DEFAULT_EXPIRY_DAYS: Final = 7
EMAIL_CHARACTERS: Final = 254


class InvitationForm(ScopedForm):
    """Form with recipient, scope and role."""

    new_resources: ClassVar[Mapping[str, NewResource]] = {"role": NEW_ROLE}
    email = forms.EmailField(max_length=EMAIL_CHARACTERS, label="Email address")
    in_scope = ScopeField(help_text="The role applies in this scope and below.")
    role = RoleField(
        Role.objects.none(), empty_label=None, help_text="You can assign roles whose permissions you have."
    )
    days = forms.IntegerField(
        min_value=1, max_value=int(INVITATION_DAYS), initial=DEFAULT_EXPIRY_DAYS, label="Expires after (days)"
    )

    field_order = ("email", "in_scope", "role", "days")

    def __init__(self, *args: Any, person: Principal, permission: str, **kwargs: Any) -> None:
        super().__init__(*args, person=person, permission=permission, **kwargs)
        self.fields["role"].queryset = list_assignable_roles(person, permission)  # type: ignore[attr-defined]
        # Default to the role with the fewest permissions, so that nobody grants more by mistake.
        self.fields["role"].initial = Role.objects.filter(identifier="viewer", scope=None).first()


class InvitationAcceptForm(PageForm):
    """Form with user name and password of a new user."""

    username = forms.CharField(
        max_length=150,
        label="User name",
        help_text="Letters, digits and @ . + - _",
        widget=forms.TextInput(attrs={"autocapitalize": "none", "spellcheck": "false"}),
    )
    password = forms.CharField(
        max_length=128, strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "new-password"})
    )
    again = forms.CharField(
        max_length=128,
        strip=False,
        label="Confirm password",
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def __init__(self, *args: Any, email: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._email = email

    def clean(self) -> dict[str, Any]:
        """Return the input after checking the password's strength and its repetition."""
        cleaned: dict[str, Any] = super().clean() or {}
        password = cleaned.get("password")
        if password and password != cleaned.get("again"):
            self.add_error("again", "The passwords do not match.")
        if password:
            person = User(username=cleaned.get("username", ""), email=self._email)
            try:
                validate_password(password, person)
            except ValidationError as error:
                self.add_error("password", error)
        return cleaned
