"""Forms of secrets, with the value as text or as a file."""

from typing import Any

from django import forms

from guards.limits import NAME_CHARACTERS, SECRET_BYTES
from web.forms.page_forms import PageForm, ScopeField
from web.forms.resource_forms import IdentifierField, IdentifierForm, RenameForm, ScopedForm


class SecretTextarea(forms.Textarea):
    """Text area for a secret; it is empty again after an error, and drafts leave it out."""

    is_secret = True

    def format_value(self, value: Any) -> str:
        return ""


class SecretValueForm(PageForm):
    """Form for a new value, as text or as a text file."""

    conditional_fields = frozenset({"value", "file"})

    value = forms.CharField(
        required=False,
        strip=False,
        label="Value",
        help_text="It is never shown again. Line breaks and spaces are kept.",
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
        help_text=f"For example a private key: UTF-8 text, {SECRET_BYTES} at most.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="secret-%s", **kwargs)

    def clean(self) -> dict[str, Any]:
        """Return the input with the value from exactly one source."""
        cleaned = super().clean() or {}
        text, file = cleaned.get("value", ""), cleaned.get("file")
        if bool(text) == bool(file):
            self.add_error("value", "Enter a value or choose a file." if not text else "Enter a value.")
        elif file and file.size > SECRET_BYTES:
            self.add_error("file", f"A secret must be at most {SECRET_BYTES}.")
        elif file:
            self._read(file, cleaned)
        return cleaned

    def _read(self, file: Any, cleaned: dict[str, Any]) -> None:
        try:
            cleaned["value"] = file.read().decode()
        except UnicodeDecodeError as exc:
            self.add_error("file", f"This is not UTF-8 text: byte {exc.start + 1} is not valid.")

    @property
    def submitted_value(self) -> dict[str, str]:
        """Return the value and the name of its file."""
        file = self.cleaned_data["file"]
        return {"value": self.cleaned_data["value"], "file_name": file.name if file else ""}


class NewSecretForm(ScopedForm, IdentifierForm, SecretValueForm):
    """Form for a new secret."""

    in_scope = ScopeField(help_text="Resources in this scope and below can use the secret.")
    name = forms.CharField(max_length=NAME_CHARACTERS)
    identifier = IdentifierField(
        help_text="Used in expressions and connectors. Generated from the name if empty."
    )

    field_order = ("in_scope", "name", "identifier", "value", "file")


class RenameSecretForm(RenameForm):
    """Form for a new name of a secret."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="secret-%s", **kwargs)
