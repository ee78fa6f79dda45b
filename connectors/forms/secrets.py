"""Forms of secrets, with the value as text or as a file."""

from typing import Any

from django import forms

from guards.limits import SECRET_BYTES
from web.forms.page_forms import PageForm
from web.forms.resource_forms import IdentifierForm, ScopedForm


class SecretTextarea(forms.Textarea):
    """A text area for a secret: a refused form comes back without what was entered."""

    def format_value(self, value: Any) -> str:
        return ""


class SecretValueForm(PageForm):
    """A new value, as text or as a file of text."""

    depending = frozenset({"value", "file"})

    value = forms.CharField(
        required=False,
        strip=False,
        label="Value",
        help_text="It is never shown again; line ends and spaces are kept as they are.",
        widget=SecretTextarea(
            attrs={
                "class": "input mono secret-value",
                "rows": 3,
                "autocomplete": "off",
                "spellcheck": "false",
                "autocapitalize": "none",
            }
        ),
    )
    file = forms.FileField(
        required=False,
        label="Or a file",
        help_text=f"Such as a private key: a text in UTF-8, {SECRET_BYTES} at most.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="secret-%s", **kwargs)

    def clean(self) -> dict[str, Any]:
        """Take the value from where it was given: from one place, not from both."""
        given = super().clean() or {}
        text, file = given.get("value", ""), given.get("file")
        if bool(text) == bool(file):
            self.add_error("value", "Give the value as text, or choose a file." if not text else "Give one.")
        elif file and file.size > SECRET_BYTES:
            self.add_error("file", f"A secret may have {SECRET_BYTES} at most.")
        elif file:
            self._read(file, given)
        return given

    def _read(self, file: Any, given: dict[str, Any]) -> None:
        try:
            given["value"] = file.read().decode()
        except UnicodeDecodeError as exc:
            self.add_error("file", f"This is no text in UTF-8: byte {exc.start + 1} does not fit.")

    @property
    def value_given(self) -> dict[str, str]:
        """The value, and the name of the file that it came as."""
        file = self.cleaned_data["file"]
        return {"value": self.cleaned_data["value"], "file_name": file.name if file else ""}


class NewSecretForm(ScopedForm, IdentifierForm, SecretValueForm):
    """A secret that is not there yet."""

    name = forms.CharField(max_length=128)

    field_order = ("in_scope", "name", "identifier", "value", "file")
