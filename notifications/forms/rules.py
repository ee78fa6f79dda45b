"""Forms of notification rules."""

from typing import Any

from django import forms

from guards.limits import NOTIFICATION_SECRET_CHARACTERS, URL_CHARACTERS
from notifications.events import SUBSCRIBABLE_EVENTS
from notifications.models import NotificationRule
from notifications.operations import NotificationRuleSpec
from web.forms.page_forms import PageForm, ScopeField
from web.forms.resource_forms import IdentifierField, IdentifierForm, ScopedForm, VersionField

_MONOSPACE_ATTRIBUTES = {
    "class": "input mono",
    "spellcheck": "false",
    "autocapitalize": "none",
    "autocomplete": "off",
}


class WriteOnlyTextInput(forms.TextInput):
    """Input for an address with a token; it is empty again after an error."""

    def format_value(self, value: Any) -> str:
        return ""


class NotificationRuleForm(PageForm):
    """A rule; neither its address nor its secret is ever shown again."""

    conditional_fields = frozenset({"url"})

    name = forms.CharField(max_length=128)
    events = forms.MultipleChoiceField(
        choices=SUBSCRIBABLE_EVENTS, label="Events", widget=forms.CheckboxSelectMultiple, required=False
    )
    url = forms.CharField(
        required=False,
        max_length=int(URL_CHARACTERS),
        label="Address",
        help_text=(
            "Events are sent to this URL as JSON with POST. It is stored encrypted and not shown again."
        ),
        widget=WriteOnlyTextInput(attrs=_MONOSPACE_ATTRIBUTES),
    )
    secret = forms.CharField(
        required=False,
        strip=False,
        max_length=int(NOTIFICATION_SECRET_CHARACTERS),
        label="Signing secret",
        help_text="Signs each request, so that the receiver can verify the sender.",
        widget=forms.PasswordInput(attrs={"class": "input mono", "autocomplete": "new-password"}),
    )
    is_enabled = forms.BooleanField(required=False, initial=True, label="Enabled")
    version = VersionField()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="rule-%s", **kwargs)

    def build_spec(self) -> NotificationRuleSpec:
        """Return the spec from the input."""
        data = self.cleaned_data
        return NotificationRuleSpec(
            name=data["name"],
            events=tuple(data["events"]),
            url=data["url"],
            secret=data["secret"],
            unsigned=data.get("unsigned", False),
            is_enabled=data["is_enabled"],
        )


class NewNotificationRuleForm(ScopedForm, IdentifierForm, NotificationRuleForm):
    """Form for a new rule."""

    in_scope = ScopeField(help_text="Events in this scope and below are sent.")
    identifier = IdentifierField(
        help_text=("Used in the API. It cannot be changed. Generated from the name if empty.")
    )

    field_order = ("in_scope", "name", "identifier")


class EditNotificationRuleForm(NotificationRuleForm):
    """A rule that is there."""

    unsigned = forms.BooleanField(required=False, label="Remove the signing secret")

    field_order = ("name", "events", "url", "secret", "unsigned")

    def __init__(self, *args: Any, rule: NotificationRule, **kwargs: Any) -> None:
        initial = {name: getattr(rule, name) for name in ("name", "events", "is_enabled", "version")}
        super().__init__(*args, initial=initial, **kwargs)
        self.fields["url"].help_text = f"Leave empty to keep the current URL at {rule.host}."
        if rule.is_signed:
            self.fields["secret"].help_text = "Leave empty to keep the current secret."
        else:
            del self.fields["unsigned"]
