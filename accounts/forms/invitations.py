"""Forms of invitations."""

from typing import Any, Final

from django import forms
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db.models import Q

from guards.limits import INVITATION_DAYS
from rbac.models import Role, User
from rbac.policy import Principal, list_permitted_scopes
from web.forms.page_forms import PageForm, ScopeField
from web.forms.resource_forms import ScopedForm

DEFAULT_EXPIRY_DAYS: Final = 7
EMAIL_CHARACTERS: Final = 254


class RoleField(forms.ModelChoiceField):
    """A role by its key; the built-in ones first."""

    def label_from_instance(self, obj: Any) -> str:
        return f"{obj.name} ({obj.scope.path})" if obj.scope else str(obj.name)


class InvitationForm(ScopedForm):
    """Whom to invite, where and as what."""

    email = forms.EmailField(max_length=EMAIL_CHARACTERS, label="E-mail address")
    in_scope = ScopeField(help_text="The role counts there and everywhere below.")
    role = RoleField(Role.objects.none(), empty_label=None, help_text="You can give what you have yourself.")
    days = forms.IntegerField(
        min_value=1, max_value=int(INVITATION_DAYS), initial=DEFAULT_EXPIRY_DAYS, label="Days until it ends"
    )

    field_order = ("email", "in_scope", "role", "days")

    def __init__(self, *args: Any, person: Principal, permission: str, **kwargs: Any) -> None:
        super().__init__(*args, person=person, permission=permission, **kwargs)
        here = list_permitted_scopes(person, permission).values("pk")
        roles = Role.objects.filter(Q(scope=None) | Q(scope__in=here)).select_related("scope")
        self.fields["role"].queryset = roles.order_by("-builtin", "name")  # type: ignore[attr-defined]
        # The least of them: more is chosen, never left standing by mistake.
        self.fields["role"].initial = Role.objects.filter(identifier="viewer", scope=None).first()


class InvitationAcceptForm(PageForm):
    """What somebody who is new here calls themselves, and their password."""

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
        label="Password again",
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def __init__(self, *args: Any, email: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._email = email

    def clean(self) -> dict[str, Any]:
        """What was entered, if the password is a good one and was typed the same twice."""
        given: dict[str, Any] = super().clean() or {}
        password = given.get("password")
        if password and password != given.get("again"):
            self.add_error("again", "This is not the same password.")
        if password:
            person = User(username=given.get("username", ""), email=self._email)
            try:
                validate_password(password, person)
            except ValidationError as error:
                self.add_error("password", error)
        return given
