"""Form of the test bench."""

from collections.abc import Sequence
from typing import Any

from django import forms

from guards.limits import POLICY_CONDITION_CHARACTERS, POLICY_DOCUMENT_CHARACTERS
from policies.forms.rules import CONDITION_ATTRIBUTES
from policies.models import PolicyRule
from web.forms.page_forms import PageForm

# Between the subject and the id of a stored resource.
SEPARATOR = ":"


class BenchForm(PageForm):
    """Condition, and a stored resource or a pasted document to evaluate it on."""

    condition = forms.CharField(
        max_length=int(POLICY_CONDITION_CHARACTERS),
        strip=False,
        widget=forms.Textarea(attrs=CONDITION_ATTRIBUTES),
    )
    resource = forms.ChoiceField(
        required=False, label="Evaluate on", help_text="Newest resources of the selected scope."
    )
    document = forms.CharField(
        required=False,
        max_length=int(POLICY_DOCUMENT_CHARACTERS),
        label="Document",
        help_text="JSON in place of a stored resource.",
        widget=forms.Textarea(attrs={**CONDITION_ATTRIBUTES, "rows": 8}),
    )

    def __init__(self, *args: Any, choices: dict[str, Sequence[tuple[str, str]]], **kwargs: Any) -> None:
        super().__init__(*args, auto_id="bench-%s", **kwargs)
        labels = dict(PolicyRule.Subject.choices)
        groups: list[Any] = [
            (f"{labels[subject]}s", [(f"{subject}{SEPARATOR}{key}", title) for key, title in rows])
            for subject, rows in choices.items()
            if rows
        ]
        field = self.fields["resource"]
        if isinstance(field, forms.ChoiceField):
            field.choices = [("", "The document below"), *groups]

    def clean(self) -> dict[str, Any]:
        """Require a resource or a document, and not both."""
        data = super().clean() or {}
        if bool(data.get("resource")) == bool(str(data.get("document", "")).strip()):
            self.add_error("resource", "Select a resource or enter a document, and not both.")
        return data
