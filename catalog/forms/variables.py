"""Form sets of variables."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from django import forms
from django.forms import BaseFormSet, formset_factory

from catalog.operations import describe_variable_problem
from catalog.overrides.variables import VariableValue
from guards.limits import VARIABLES
from steps.expressions import format_value
from web.forms.page_forms import LinesField, PageForm, show_lines

_NUMBER_PATTERN = re.compile(r"-?\d{1,15}(\.\d{1,15})?\Z", re.ASCII)
_BOOLEAN_WORDS = {"true": True, "false": False}
TEXT, NUMBER, BOOLEAN = "String", "Number", "Boolean"


class VariableForm(PageForm):
    """Form of one variable; a row without name and value is ignored."""

    name = forms.CharField(
        required=False,
        max_length=128,
        widget=forms.TextInput(
            attrs={"class": "input mono", "spellcheck": "false", "autocapitalize": "none"}
        ),
    )
    kind = forms.ChoiceField(
        required=False,
        label="Type",
        choices=[(TEXT, "Text"), (NUMBER, "Number"), (BOOLEAN, "True or false")],
    )
    value = LinesField(
        required=False,
        strip=False,
        max_length=4096,
        widget=forms.TextInput(attrs={"class": "input mono", "spellcheck": "false"}),
    )
    required = forms.BooleanField(required=False, label="Required")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        show_lines(self, "value", rows=4)

    def clean(self) -> dict[str, Any]:
        """Convert the value to the selected type."""
        data = self.cleaned_data
        name, value = data.get("name", ""), data.get("value", "")
        if not name:
            if value:
                self.add_error("name", "Enter a name for the variable.")
            return data
        converted = self._convert_value(data.get("kind") or TEXT, value)
        if converted is not None:
            data["value"] = converted
            if message := describe_variable_problem(name, converted):
                self.add_error("name", f"{message[:1].upper()}{message[1:]}.")
        return data

    def _convert_value(self, kind: str, value: str) -> VariableValue | None:
        if kind == TEXT:
            return value
        if kind == BOOLEAN and value.strip().lower() in _BOOLEAN_WORDS:
            return _BOOLEAN_WORDS[value.strip().lower()]
        if kind == NUMBER and _NUMBER_PATTERN.match(value.strip()):
            return float(value) if "." in value else int(value)
        self.add_error("value", "Enter a number." if kind == NUMBER else "Enter true or false.")
        return None


if TYPE_CHECKING:
    _BaseVariableFormSet = BaseFormSet[VariableForm]
else:
    _BaseVariableFormSet = BaseFormSet


class VariableFormSet(_BaseVariableFormSet):
    """All variables of a resource."""

    def clean(self) -> None:
        """Reject duplicate names."""
        names: set[str] = set()
        for form in self.forms:
            name = form.cleaned_data.get("name", "") if hasattr(form, "cleaned_data") else ""
            if name in names:
                form.add_error("name", f"{name} is already defined above.")
            names |= {name} - {""}

    @property
    def list_named_rows(self) -> Sequence[dict[str, Any]]:
        """Return the rows that have a name."""
        return [form.cleaned_data for form in self.forms if form.cleaned_data.get("name")]

    def variables(self) -> dict[str, VariableValue]:
        """Return the values by name."""
        return {row["name"]: row["value"] for row in self.list_named_rows}

    def required(self) -> list[str]:
        """Return the names of the required variables."""
        return [row["name"] for row in self.list_named_rows if row["required"]]


_VariableFormSetClass = formset_factory(
    VariableForm, formset=VariableFormSet, extra=0, max_num=int(VARIABLES), absolute_max=int(VARIABLES) + 50
)


def build_variable_formset(
    data: Any = None, variables: Mapping[str, VariableValue] | None = None, required: Sequence[str] = ()
) -> VariableFormSet:
    """Build the form set from the posted data, or from the stored variables and one empty row."""
    if data is not None:
        return cast("VariableFormSet", _VariableFormSetClass(data, prefix="variables"))
    rows = [
        {
            "name": name,
            "kind": _detect_kind(value),
            "value": format_value(value),
            "required": name in required,
        }
        for name, value in (variables or {}).items()
    ]
    return cast("VariableFormSet", _VariableFormSetClass(initial=[*rows, {}], prefix="variables"))


def _detect_kind(value: VariableValue) -> str:
    if isinstance(value, bool):
        return BOOLEAN
    return NUMBER if isinstance(value, int | float) else TEXT


class FormWithVariables(PageForm):
    """A form with rows of variables; it starts with `variables` and `required_variables` of `initial`."""

    def __init__(self, data: Any = None, files: Any = None, **kwargs: Any) -> None:
        super().__init__(data, files, **kwargs)
        self.variables = build_variable_formset(
            data, self.initial.get("variables"), self.initial.get("required_variables", ())
        )

    def is_valid(self) -> bool:
        """Validate the fields and the rows, so that all mistakes are shown at once."""
        return super().is_valid() & self.variables.is_valid()

    @property
    def http_status(self) -> int:
        """Return the status of a page with this form: 400 if an entered value was refused."""
        return 400 if self.is_bound and (self.errors or not self.variables.is_valid()) else 200
