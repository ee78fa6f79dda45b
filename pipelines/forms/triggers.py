"""Forms of triggers, with the settings of their kind and the inputs of their pipeline."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from django import forms

from guards.limits import CONDITION_CHARACTERS, EXPRESSION_CHARACTERS, NAME_CHARACTERS, TRIGGER_CONDITIONS
from pipelines.inputs.variables import PipelineVariable, format_variable_value
from pipelines.models import Pipeline, Trigger, TriggerFiring
from pipelines.operations.pipelines import list_pipeline_variables
from pipelines.triggers.base import Setting, TriggerKind
from pipelines.triggers.operations import TriggerSpec, list_usable_accounts
from rbac.models import ServiceAccount, User
from steps.expressions import has_expression
from web.forms.drafts import NewResource
from web.forms.page_forms import LinesField, PageForm, show_lines
from web.forms.resource_forms import IdentifierField, IdentifierForm

_MONOSPACE: Final = {"class": "input mono", "spellcheck": "false", "autocapitalize": "none"}
_AREA: Final = {**_MONOSPACE, "class": "input mono area", "rows": 3}
SPEC, INPUTS = "spec.", "inputs."
NEW_ACCOUNT: Final = NewResource("service account", "new-service-account", "core_serviceaccount_edit")


class AccountField(forms.ModelChoiceField):
    """Choice of a service account."""

    def label_from_instance(self, obj: Any) -> str:
        return f"{obj.name} ({obj.scope.path})"


class TriggerForm(PageForm):
    """A trigger. Its settings are the fields `spec.NAME`, its inputs `inputs.NAME`."""

    name = forms.CharField(max_length=int(NAME_CHARACTERS))
    conditions = forms.CharField(
        required=False,
        max_length=CONDITION_CHARACTERS * TRIGGER_CONDITIONS,
        widget=forms.Textarea(attrs=_AREA),
        help_text='One in each line, such as <+trigger.payload.status> == "passed". All of them must hold.',
    )
    tag = forms.CharField(
        required=False,
        label="Image tag",
        max_length=int(EXPRESSION_CHARACTERS),
        widget=forms.TextInput(attrs=_MONOSPACE),
        help_text="Such as <+trigger.payload.tag>. If empty, the run deploys the default tag of the service.",
    )
    service_account = AccountField(
        ServiceAccount.objects.none(),
        help_text="Runs have its permissions, and show it as who started them. It must be able to run "
        "the pipeline: assign its roles on its page.",
    )
    is_enabled = forms.BooleanField(required=False, initial=True, label="Enabled")
    version = forms.IntegerField(min_value=1, required=False, widget=forms.HiddenInput)

    new_resources: ClassVar[Mapping[str, NewResource]] = {"service_account": NEW_ACCOUNT}

    def __init__(
        self, *args: Any, kind: TriggerKind, pipeline: Pipeline, person: User, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.kind = kind
        self.variables = [row for row in list_pipeline_variables(pipeline) if not row.is_secret]
        accounts: Any = self.fields["service_account"]
        accounts.queryset = list_usable_accounts(pipeline, person)
        fields = {f"{SPEC}{setting.name}": _build_setting_field(setting) for setting in kind.settings}
        fields |= {f"{INPUTS}{variable.name}": _build_input_field(variable) for variable in self.variables}
        self.fields.update(fields)
        for variable in self.variables:
            show_lines(self, f"{INPUTS}{variable.name}", rows=4, default=str(variable.value))
        if not kind.has_payload:
            self._describe_values(list(kind.values))
        names = ["name", "identifier", *fields, "service_account", "is_enabled"]
        names.insert(2 + len(kind.settings), "tag")
        names.insert(2 + len(kind.settings), "conditions")
        self.order_fields(names)

    def _describe_values(self, names: list[str]) -> None:
        """Name expressions that events without a payload have."""
        example = f"<+trigger.{names[0]}>"
        self.fields["conditions"].help_text = f"One in each line, on values such as {example}. All must hold."
        self.fields["tag"].help_text = "If empty, the run deploys the default tag of the service."

    def keep_account(self, account: ServiceAccount | None) -> None:
        """Offer the present service account too, which another person chose."""
        accounts: Any = self.fields["service_account"]
        if account is not None:
            ids = [*accounts.queryset.values_list("pk", flat=True), account.pk]
            accounts.queryset = ServiceAccount.objects.filter(pk__in=ids).select_related("scope", "user")

    def build_spec(self) -> TriggerSpec:
        """Return the entered fields."""
        data = self.cleaned_data
        return TriggerSpec(
            name=data["name"],
            spec=self._read_settings(),
            service_account=data["service_account"],
            tag=data["tag"],
            inputs={
                variable.name: text if has_expression(text) else variable.parse_value(text)
                for variable in self.variables
                if (text := data[f"{INPUTS}{variable.name}"])
            },
            conditions=_split_lines(data["conditions"]),
            is_enabled=data["is_enabled"],
        )

    def read_settings(self) -> dict[str, str | list[str]] | None:
        """Return the entered settings, or None if one is invalid; only their errors are kept."""
        names = {f"{SPEC}{setting.name}" for setting in self.kind.settings}
        for name in [name for name in self.errors if name not in names]:
            del self.errors[name]
        return None if self.errors else self._read_settings()

    def _read_settings(self) -> dict[str, str | list[str]]:
        return {setting.name: self._read_setting(setting) for setting in self.kind.settings}

    def _read_setting(self, setting: Setting) -> str | list[str]:
        text = self.cleaned_data[f"{SPEC}{setting.name}"]
        return _split_lines(text) if setting.is_list else text


class NewTriggerForm(IdentifierForm, TriggerForm):
    """Form for a new trigger."""

    identifier = IdentifierField(
        help_text="Used in the API. It cannot be changed. Generated from the name if empty."
    )


def build_initial(trigger: Trigger) -> dict[str, Any]:
    """Return the stored values of a trigger, by the names of the form's fields."""
    settings = {
        f"{SPEC}{name}": "\n".join(value) if isinstance(value, list) else value
        for name, value in trigger.spec.items()
    }
    inputs = {f"{INPUTS}{name}": format_variable_value(value) for name, value in trigger.inputs.items()}
    return {
        "name": trigger.name,
        "conditions": "\n".join(trigger.conditions),
        "tag": trigger.tag,
        "service_account": trigger.service_account_id,
        "is_enabled": trigger.is_enabled,
        **settings,
        **inputs,
    }


class TrialForm(PageForm):
    """A payload to try a trigger with."""

    payload = forms.CharField(
        strip=False,
        widget=forms.Textarea(attrs={**_AREA, "rows": 12}),
        help_text="JSON as the sender would send it. Nothing is started or stored.",
    )

    def __init__(self, *args: Any, kind: TriggerKind, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not kind.has_payload:
            self.fields["payload"].widget = forms.HiddenInput()

    @staticmethod
    def build_initial(kind: TriggerKind, firing: TriggerFiring | None) -> dict[str, str]:
        """Return the payload of a stored firing, or the sample of the kind."""
        if firing is None:
            return {"payload": kind.sample_payload}
        return {"payload": json.dumps(firing.payload, indent=2, ensure_ascii=False)}


def _split_lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _build_setting_field(setting: Setting) -> forms.Field:
    options: dict[str, Any] = {
        "label": setting.label,
        "help_text": setting.help,
        # A list of choices has always one selected.
        "required": setting.is_required or bool(setting.choices),
        "initial": setting.default,
    }
    if setting.choices:
        return forms.ChoiceField(
            choices=setting.choices, widget=forms.Select(attrs={"class": "select"}), **options
        )
    if setting.is_list:
        return forms.CharField(widget=forms.Textarea(attrs=_AREA), **options)
    return forms.CharField(widget=forms.TextInput(attrs=_MONOSPACE), **options)


def _build_input_field(variable: PipelineVariable) -> forms.Field:
    return LinesField(
        label=f"Input {variable.name}",
        required=False,
        max_length=int(EXPRESSION_CHARACTERS),
        widget=forms.TextInput(attrs=_MONOSPACE),
        help_text=variable.description or "A value, or an expression such as <+trigger.payload.name>.",
    )
