"""Forms of sign-in and of a user's own account."""

from typing import Any

from django import forms
from django.contrib.auth.forms import AuthenticationForm, SetPasswordForm
from django.core.exceptions import ValidationError

from accounts.authentication.two_factor import verify_code, verify_identity
from rbac import usage_counts
from rbac.models import User
from rbac.models.scopes import validate_name
from web.forms.page_forms import PageForm

CODE_ATTRIBUTES = {"autocomplete": "one-time-code", "inputmode": "numeric", "spellcheck": "false"}
PASSWORD_ATTRIBUTES = {"autocomplete": "current-password"}


class CodeForm(PageForm):
    """A code of the app, or a recovery code."""

    code = forms.CharField(label="Code", max_length=20, widget=forms.TextInput(attrs=CODE_ATTRIBUTES))

    def __init__(self, *args: Any, person: User, address: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.person, self.address = person, address

    def clean_code(self) -> str:
        code: str = self.cleaned_data["code"]
        if not verify_code(self.person, code, address=self.address):
            raise forms.ValidationError("This code is wrong or was already used. Wait for the next code.")
        return code


class ReauthenticationForm(PageForm):
    """Form that asks for the password, or for a code if the user has no password."""

    proof = forms.CharField(
        label="Your password",
        max_length=200,
        widget=forms.PasswordInput(attrs=PASSWORD_ATTRIBUTES),
        strip=False,
    )

    def __init__(self, *args: Any, person: User, address: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.person, self.address = person, address
        if not person.has_usable_password():
            self.fields["proof"].label = "Code from your app"

    def clean_proof(self) -> str:
        proof: str = self.cleaned_data["proof"]
        if not verify_identity(self.person, proof, address=self.address):
            raise forms.ValidationError("The password or code is not correct.")
        return proof


class TwoFactorEnableForm(PageForm):
    """Form with the first code of an app, and with the password if the user has one."""

    code = forms.CharField(
        label="Code from the app", max_length=20, widget=forms.TextInput(attrs=CODE_ATTRIBUTES)
    )
    proof = forms.CharField(
        label="Your password",
        max_length=200,
        widget=forms.PasswordInput(attrs=PASSWORD_ATTRIBUTES),
        strip=False,
    )

    def __init__(self, *args: Any, person: User, address: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.person, self.address = person, address
        if not person.has_usable_password():
            del self.fields["proof"]

    def clean_proof(self) -> str:
        proof: str = self.cleaned_data["proof"]
        if not verify_identity(self.person, proof, address=self.address):
            raise forms.ValidationError("The password is not correct.")
        return proof


class ProfileForm(PageForm):
    """Form with name and e-mail address; it asks for the password, because the e-mail can reset it."""

    conditional_fields = frozenset({"proof"})
    first_name = forms.CharField(label="First name", max_length=150, required=False)
    last_name = forms.CharField(label="Last name", max_length=150, required=False)
    email = forms.EmailField(
        label="Email address",
        max_length=254,
        required=False,
        help_text="Password reset links are sent to this address.",
    )
    proof = forms.CharField(
        label="Your password",
        max_length=200,
        required=False,
        strip=False,
        widget=forms.PasswordInput(attrs=PASSWORD_ATTRIBUTES),
        help_text="Required to change the email address.",
    )

    def __init__(self, *args: Any, person: User, address: str, **kwargs: Any) -> None:
        initial = {name: getattr(person, name) for name in ("first_name", "last_name", "email")}
        super().__init__(*args, initial=initial, **kwargs)
        self.person, self.address = person, address
        if not person.has_usable_password():
            self.fields["email"].disabled = True
            self.fields["email"].help_text = "Set by your single sign-on provider."
            del self.fields["proof"]

    def clean_first_name(self) -> str:
        return self._name("first_name")

    def clean_last_name(self) -> str:
        return self._name("last_name")

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        is_new = "email" in cleaned and cleaned["email"] != self.person.email
        if is_new and not verify_identity(self.person, cleaned.get("proof", ""), address=self.address):
            self.add_error("proof", "Enter your password to change the email address.")
        return cleaned

    def _name(self, field: str) -> str:
        name: str = self.cleaned_data[field]
        try:
            if name:
                validate_name(name, field)
        except forms.ValidationError as problem:
            raise forms.ValidationError(problem.message_dict[field]) from problem
        return name


class PasswordResetRequestForm(PageForm):
    """Form with the e-mail address of a password reset."""

    email = forms.EmailField(
        label="Email address", max_length=254, widget=forms.EmailInput(attrs={"autocomplete": "email"})
    )


class NewPasswordForm(PageForm, SetPasswordForm):
    """A new password, twice."""


class ChangePasswordForm(NewPasswordForm):
    """Form with the old and the new password."""

    old_password = forms.CharField(
        label="Current password",
        max_length=200,
        strip=False,
        widget=forms.PasswordInput(attrs=PASSWORD_ATTRIBUTES),
    )
    field_order = ["old_password", "new_password1", "new_password2"]

    def __init__(self, *args: Any, address: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.address = address

    def clean_old_password(self) -> str:
        proof: str = self.cleaned_data["old_password"]
        if not verify_identity(self.user, proof, address=self.address):
            raise forms.ValidationError("The password is not correct.")
        return proof


TOO_MANY_ATTEMPTS = "too_many"


class SignInForm(AuthenticationForm):
    """Form with user name and password; it rejects sign-ins above the rate limit."""

    def clean(self) -> dict[str, Any]:
        account = self.cleaned_data.get("username", "")
        address = self.request.META.get("REMOTE_ADDR", "") if self.request else ""
        if not usage_counts.count_attempt(account=account, address=address):
            raise ValidationError(
                "Too many failed sign-ins. Wait a few minutes, then try again.", TOO_MANY_ATTEMPTS
            )
        cleaned: dict[str, Any] = super().clean()
        if self.get_user() is not None:
            usage_counts.reset_attempts(account=account, address=address)
        return cleaned

    @property
    def is_throttled(self) -> bool:
        return self.has_error("__all__", TOO_MANY_ATTEMPTS)
