"""Forms of sign-in and of a user's own account."""

from typing import Any, ClassVar

from django import forms
from django.contrib.auth.forms import AuthenticationForm, SetPasswordForm
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils.functional import cached_property

from accounts.authentication.passkeys import (
    PasskeyRefused,
    Purpose,
    get_passkey_obstacle,
    get_passkey_rows,
    verify_passkey,
)
from accounts.authentication.two_factor import (
    has_authenticator_app,
    has_two_factor,
    verify_code,
    verify_identity,
)
from guards.limits import NAME_CHARACTERS, PASSKEY_ANSWER_CHARACTERS
from rbac import usage_counts
from rbac.models import User
from rbac.models.scopes import validate_name
from web.forms.page_forms import PageForm

CODE_ATTRIBUTES = {"autocomplete": "one-time-code", "inputmode": "numeric", "spellcheck": "false"}
PASSWORD_ATTRIBUTES = {"autocomplete": "current-password"}


class AssertionField(forms.CharField):
    """Answer of a browser that has a passkey, filled in by a script."""

    def __init__(self) -> None:
        super().__init__(
            required=False, max_length=int(PASSKEY_ANSWER_CHARACTERS), widget=forms.HiddenInput, strip=False
        )


class PasskeyProofForm(PageForm):
    """Base of forms that take a passkey instead of a typed proof."""

    purpose: ClassVar[Purpose]
    # The field that a person types the proof into, and what is said of a wrong one.
    typed_field: ClassVar[str]
    refusal: ClassVar[str]
    assertion = AssertionField()

    def __init__(self, *args: Any, person: User, request: HttpRequest, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.person, self.request = person, request

    @cached_property
    def takes_passkey(self) -> bool:
        """Return whether the user has a passkey that works at this address."""
        return get_passkey_rows(self.person).exists() and not get_passkey_obstacle(self.request)

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if assertion := cleaned.get("assertion"):
            self._verify_passkey(assertion)
        elif self.typed_field in self.fields and not self.has_error(self.typed_field):
            self._verify_typed(cleaned.get(self.typed_field, ""))
        return cleaned

    def verify_typed(self, proof: str) -> bool:
        """Return whether a typed proof is right."""
        raise NotImplementedError

    def _verify_typed(self, proof: str) -> None:
        if not proof:
            self.add_error(self.typed_field, "This field is required.")
        elif not self.verify_typed(proof):
            self.add_error(self.typed_field, self.refusal)

    def _verify_passkey(self, assertion: str) -> None:
        try:
            verify_passkey(self.request, self.purpose, person=self.person, assertion=assertion)
        except PasskeyRefused as problem:
            self.add_error(None, problem.detail)


class SecondStepForm(PasskeyProofForm):
    """A code of the app, a recovery code, or a passkey."""

    purpose = Purpose.SECOND_STEP
    typed_field = "code"
    refusal = "This code is wrong or was already used. Wait for the next code."
    conditional_fields = frozenset({"code"})
    code = forms.CharField(
        label="Code", max_length=20, required=False, widget=forms.TextInput(attrs=CODE_ATTRIBUTES)
    )

    def verify_typed(self, proof: str) -> bool:
        return verify_code(self.person, proof, address=get_client_address(self.request))


class ReauthenticationForm(PasskeyProofForm):
    """Form that asks for the password, for a code if the user has no password, or for a passkey."""

    purpose = Purpose.PROOF
    typed_field = "proof"
    refusal = "The password or code is not correct."
    conditional_fields = frozenset({"proof"})
    proof = forms.CharField(
        label="Your password",
        max_length=200,
        required=False,
        widget=forms.PasswordInput(attrs=PASSWORD_ATTRIBUTES),
        strip=False,
    )

    def __init__(self, *args: Any, person: User, request: HttpRequest, **kwargs: Any) -> None:
        super().__init__(*args, person=person, request=request, **kwargs)
        if not person.has_usable_password():
            has_app = has_authenticator_app(person)
            self.fields["proof"].label = "Code from your app" if has_app else "Recovery code"

    def verify_typed(self, proof: str) -> bool:
        return verify_identity(self.person, proof, address=get_client_address(self.request))


class NewFactorForm(ReauthenticationForm):
    """Form that adds a way to sign in: users without password or factor have nothing to prove with."""

    def __init__(self, *args: Any, person: User, request: HttpRequest, **kwargs: Any) -> None:
        super().__init__(*args, person=person, request=request, **kwargs)
        if not person.has_usable_password() and not has_two_factor(person):
            del self.fields["proof"]


class NewPasskeyForm(NewFactorForm):
    """Name and use of a new passkey, with a proof of identity if the user has one."""

    name = forms.CharField(
        label="Name", max_length=int(NAME_CHARACTERS), help_text="So that you recognize it in the list."
    )
    is_passwordless = forms.BooleanField(
        label="Sign in with it without a password",
        required=False,
        initial=True,
        help_text="The device then asks for a PIN, a fingerprint or your face. Clear this for a security key"
        " that is a second factor only.",
    )
    field_order = ["name", "is_passwordless", "proof"]

    def clean_name(self) -> str:
        return clean_name(self.cleaned_data["name"])


class PasskeyNameForm(PageForm):
    """A new name of a passkey."""

    name = forms.CharField(label="Name", max_length=int(NAME_CHARACTERS))

    def clean_name(self) -> str:
        return clean_name(self.cleaned_data["name"])


def clean_name(name: str, field: str = "name") -> str:
    """Return a valid name. Raises `ValidationError`."""
    try:
        validate_name(name, field)
    except ValidationError as problem:
        raise ValidationError(problem.message_dict[field]) from problem
    return name


def get_client_address(request: HttpRequest) -> str:
    """Return the client's address; failed attempts are counted by it."""
    return str(request.META.get("REMOTE_ADDR", ""))


class TwoFactorEnableForm(NewFactorForm):
    """Form with the first code of an app, and with a proof of identity if the user has one."""

    code = forms.CharField(
        label="Code from the app", max_length=20, widget=forms.TextInput(attrs=CODE_ATTRIBUTES)
    )
    field_order = ["code", "proof"]


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
        return clean_name(name, field) if name else name


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
