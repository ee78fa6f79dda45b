"""Forms of policy rules."""

from typing import Final

from django import forms

from guards.limits import POLICY_CONDITION_CHARACTERS, POLICY_MESSAGE_CHARACTERS
from policies.models import PolicyRule
from policies.operations import PolicyRuleSpec
from web.forms.page_forms import PageForm, ScopeField
from web.forms.resource_forms import IdentifierField, IdentifierForm, ScopedForm, VersionField

RULE_FIELDS: Final = ("name", "subject", "condition", "message", "effect", "is_enabled", "version")
CONDITION_ATTRIBUTES: Final = {
    "class": "input area mono",
    "rows": 4,
    "spellcheck": "false",
    "autocapitalize": "none",
}


class PolicyRuleForm(PageForm):
    """Fields of a policy rule."""

    name = forms.CharField(max_length=128)
    subject = forms.ChoiceField(
        choices=PolicyRule.Subject.choices,
        initial=PolicyRule.Subject.RUN,
        help_text="Pipelines and manifests are checked when they are saved and when they run.",
    )
    condition = forms.CharField(
        max_length=int(POLICY_CONDITION_CHARACTERS),
        strip=False,
        help_text="CEL expression, such as artifact.tag != 'latest'. The rule is met if it is true.",
        widget=forms.Textarea(attrs=CONDITION_ATTRIBUTES),
    )
    message = forms.CharField(
        max_length=int(POLICY_MESSAGE_CHARACTERS),
        help_text="What to do if the rule is not met.",
        widget=forms.Textarea(attrs={"class": "input area", "rows": 2}),
    )
    effect = forms.ChoiceField(
        choices=PolicyRule.Effect.choices,
        initial=PolicyRule.Effect.WARN,
        help_text="Refuse stops saving and running. A rollback is never refused.",
    )
    is_enabled = forms.BooleanField(required=False, initial=True, label="Enabled")
    version = VersionField()

    def build_spec(self) -> PolicyRuleSpec:
        """Return the spec from the input."""
        return PolicyRuleSpec(**{name: self.cleaned_data[name] for name in RULE_FIELDS if name != "version"})


class NewPolicyRuleForm(ScopedForm, IdentifierForm, PolicyRuleForm):
    """Form for a new rule."""

    in_scope = ScopeField(help_text="The rule applies to this scope and below.")
    identifier = IdentifierField(
        help_text="Used in the API. It cannot be changed. Generated from the name if empty."
    )

    field_order = ("in_scope", "name", "identifier")
