"""Forms of what a person looks after at their own account."""

from typing import Any

from django import forms
from django.contrib.auth.forms import SetPasswordForm

from accounts.people.proof import is_code, is_proof
from rbac.models import User
from rbac.models.named import check_name
from web.page_forms import PageForm

CODE = {"autocomplete": "one-time-code", "inputmode": "numeric", "spellcheck": "false"}
SECRET = {"autocomplete": "current-password"}


class CodeForm(PageForm):
    """A code of the app, or a recovery code."""

    code = forms.CharField(label="Code", max_length=20, widget=forms.TextInput(attrs=CODE))

    def __init__(self, *args: Any, person: User, address: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.person, self.address = person, address

    def clean_code(self) -> str:
        code: str = self.cleaned_data["code"]
        if not is_code(self.person, code, address=self.address):
            raise forms.ValidationError("This code is wrong, or was used already. Wait for the next one.")
        return code


class ProofForm(PageForm):
    """The password once more, or a code where there is no password."""

    proof = forms.CharField(
        label="Your password", max_length=200, widget=forms.PasswordInput(attrs=SECRET), strip=False
    )

    def __init__(self, *args: Any, person: User, address: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.person, self.address = person, address
        if not person.has_usable_password():
            self.fields["proof"].label = "A code of your app"

    def clean_proof(self) -> str:
        given: str = self.cleaned_data["proof"]
        if not is_proof(self.person, given, address=self.address):
            raise forms.ValidationError("This is wrong.")
        return given


class TurnOnForm(PageForm):
    """The first code of an app that was just told its secret, and the password where there is one."""

    code = forms.CharField(label="The code that it shows", max_length=20, widget=forms.TextInput(attrs=CODE))
    proof = forms.CharField(
        label="Your password", max_length=200, widget=forms.PasswordInput(attrs=SECRET), strip=False
    )

    def __init__(self, *args: Any, person: User, address: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.person, self.address = person, address
        if not person.has_usable_password():
            del self.fields["proof"]

    def clean_proof(self) -> str:
        given: str = self.cleaned_data["proof"]
        if not is_proof(self.person, given, address=self.address):
            raise forms.ValidationError("This is not your password.")
        return given


class ProfileForm(PageForm):
    """Name and e-mail address; whoever reads the letters can set the password, so it takes the password."""

    depending = frozenset({"proof"})
    first_name = forms.CharField(label="First name", max_length=150, required=False)
    last_name = forms.CharField(label="Last name", max_length=150, required=False)
    email = forms.EmailField(
        label="E-mail", max_length=254, required=False, help_text="Where a new password can be asked for."
    )
    proof = forms.CharField(
        label="Your password",
        max_length=200,
        required=False,
        strip=False,
        widget=forms.PasswordInput(attrs=SECRET),
        help_text="Needed to change the e-mail address.",
    )

    def __init__(self, *args: Any, person: User, address: str, **kwargs: Any) -> None:
        given = {name: getattr(person, name) for name in ("first_name", "last_name", "email")}
        super().__init__(*args, initial=given, **kwargs)
        self.person, self.address = person, address
        if not person.has_usable_password():
            self.fields["email"].disabled = True
            self.fields["email"].help_text = "Your single sign-on says it."
            del self.fields["proof"]

    def clean_first_name(self) -> str:
        return self._name("first_name")

    def clean_last_name(self) -> str:
        return self._name("last_name")

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or self.cleaned_data
        is_new = "email" in given and given["email"] != self.person.email
        if is_new and not is_proof(self.person, given.get("proof", ""), address=self.address):
            self.add_error("proof", "Your password is needed to change the e-mail address.")
        return given

    def _name(self, field: str) -> str:
        name: str = self.cleaned_data[field]
        try:
            if name:
                check_name(name, field)
        except forms.ValidationError as problem:
            raise forms.ValidationError(problem.message_dict[field]) from problem
        return name


class ForgottenPasswordForm(PageForm):
    """The e-mail address that a letter goes to."""

    email = forms.EmailField(
        label="E-mail", max_length=254, widget=forms.EmailInput(attrs={"autocomplete": "email"})
    )


class NewPasswordForm(PageForm, SetPasswordForm):
    """A new password, twice."""


class ChangePasswordForm(NewPasswordForm):
    """A new password, for who knows the old one."""

    old_password = forms.CharField(
        label="Old password", max_length=200, strip=False, widget=forms.PasswordInput(attrs=SECRET)
    )
    field_order = ["old_password", "new_password1", "new_password2"]

    def __init__(self, *args: Any, address: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.address = address

    def clean_old_password(self) -> str:
        given: str = self.cleaned_data["old_password"]
        if not is_proof(self.user, given, address=self.address):
            raise forms.ValidationError("This is not your password.")
        return given
