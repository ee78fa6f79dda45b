"""Forms of secrets, with the value as text, as a file or as a reference to a secret manager."""

from typing import Any, cast

from django import forms

from connectors.forms.base import MONOSPACE_ATTRIBUTES
from connectors.models import Connector, Secret
from connectors.secret_managers.base import SecretReference, get_managers
from guards.limits import NAME_CHARACTERS, SECRET_BYTES
from rbac.policy import Principal, filter_visible
from web.forms.page_forms import PageForm, ScopeField
from web.forms.resource_forms import IdentifierField, IdentifierForm, RenameForm, ScopedForm


class SecretTextarea(forms.Textarea):
    """Text area for a secret; it is empty again after an error, and drafts leave it out."""

    is_secret = True

    def format_value(self, value: Any) -> str:
        return ""


VALUE, REFERENCE = "Value", "Reference"


class ManagerField(forms.ChoiceField):
    """Choice of a secret manager and a connector to it, as `manager:key of the connector`."""

    def set_choices(self, person: Principal) -> None:
        """Offer each manager with the connectors to it that the user may use."""
        managers = get_managers()
        kinds = {manager.connector_kind for manager in managers.values()}
        usable = filter_visible(
            person, "core_connector_access", Connector.objects.filter(kind__in=sorted(kinds))
        )
        self.connectors = {
            f"{name}:{connector.pk}": connector
            for connector in usable.select_related("scope", "secret").order_by("scope__path", "identifier")
            for name, manager in managers.items()
            if manager.connector_kind == connector.kind
        }
        labels = {
            choice: f"{managers[choice.partition(':')[0]].title} – {connector.name} "
            f"({connector.scope.path}/{connector.identifier})"
            for choice, connector in self.connectors.items()
        }
        self.choices = [("", "Choose a secret manager"), *sorted(labels.items(), key=lambda entry: entry[1])]


def _build_text_input(placeholder: str) -> forms.TextInput:
    return forms.TextInput(attrs={**MONOSPACE_ATTRIBUTES, "placeholder": placeholder})


class SecretSourceForm(PageForm):
    """Form for the source of a secret: a value as text or text file, or a reference to a secret manager."""

    conditional_fields = frozenset({"value", "file", "connector", "path", "key", "version"})

    source = forms.ChoiceField(
        label="Source",
        choices=[(VALUE, "Value, stored encrypted"), (REFERENCE, "Reference to a secret manager")],
        initial=VALUE,
        required=False,
        widget=forms.RadioSelect,
    )
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
    connector = ManagerField(
        required=False,
        label="Secret manager",
        help_text="AWS connectors reach Secrets Manager and Parameter Store. Slipway reads the value, or a "
        "delegate if the connector connects through one.",
    )
    path = forms.CharField(
        required=False,
        max_length=2048,
        label="Name or path",
        help_text="A name is looked up in the test region of an AWS connector; an ARN in its own region. "
        "Vault: the path below the mount.",
        widget=_build_text_input("prod/db"),
    )
    key = forms.CharField(
        required=False,
        max_length=255,
        label="Key",
        help_text="Field of a JSON value. Required for Vault.",
        widget=_build_text_input("password"),
    )
    version = forms.CharField(
        required=False,
        max_length=128,
        label="Version",
        help_text="Number, label or ID. Empty: the newest one, read again after a minute.",
        widget=_build_text_input(""),
    )

    def __init__(self, *args: Any, secret: Secret | None = None, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="secret-%s", initial=_build_initial_source(secret), **kwargs)

    def set_manager_choices(self, person: Principal) -> None:
        """Offer the secret managers that the user may use."""
        self._manager_field.set_choices(person)

    @property
    def _manager_field(self) -> ManagerField:
        return cast("ManagerField", self.fields["connector"])

    def clean(self) -> dict[str, Any]:
        """Return the input with exactly one source."""
        cleaned = super().clean() or {}
        if cleaned.get("source") == REFERENCE:
            if not cleaned.get("connector") and "connector" not in self.errors:
                self.add_error("connector", "Choose a secret manager.")
            return cleaned
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
    def submitted_source(self) -> dict[str, Any]:
        """Return the arguments of the operation: a value and the name of its file, or a reference."""
        data = self.cleaned_data
        if data["source"] == REFERENCE:
            choice = data["connector"]
            manager = choice.partition(":")[0]
            connector = self._manager_field.connectors[choice]
            return {
                "reference": SecretReference(manager, connector, data["path"], data["key"], data["version"])
            }
        return {"value": data["value"], "file_name": data["file"].name if data["file"] else ""}


def _build_initial_source(secret: Secret | None) -> dict[str, Any]:
    if secret is None or not secret.is_reference:
        return {"source": VALUE}
    return {
        "source": REFERENCE,
        "connector": f"{secret.manager}:{secret.manager_connector_id}",
        "path": secret.reference_path,
        "key": secret.reference_key,
        "version": secret.reference_version,
    }


class ChangeSourceForm(SecretSourceForm):
    """Form for a new value or reference of an existing secret."""

    def __init__(self, *args: Any, person: Principal, secret: Secret, **kwargs: Any) -> None:
        super().__init__(*args, secret=secret, **kwargs)
        self.set_manager_choices(person)


class NewSecretForm(ScopedForm, IdentifierForm, SecretSourceForm):
    """Form for a new secret."""

    in_scope = ScopeField(help_text="Resources in this scope and below can use the secret.")
    name = forms.CharField(max_length=int(NAME_CHARACTERS))
    identifier = IdentifierField(
        help_text="Used in expressions and connectors. Generated from the name if empty."
    )

    field_order = ("in_scope", "name", "identifier", "source", "value", "file")

    def __init__(self, *args: Any, person: Principal, **kwargs: Any) -> None:
        super().__init__(*args, person=person, **kwargs)
        self.set_manager_choices(person)


class RenameSecretForm(RenameForm):
    """Form for a new name of a secret."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="secret-%s", **kwargs)
