"""Forms of notification rules."""

from typing import Any

from django import forms

from guards.limits import NOTIFICATION_SECRET_CHARACTERS, URL_CHARACTERS
from notifications.channels.base import Channel, ChannelOption
from notifications.channels.registry import CHANNELS
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
    """A rule for a kind of channel, which decides the inputs; neither address nor key is ever shown again."""

    conditional_fields = frozenset({"url", "secret"})

    name = forms.CharField(max_length=128)
    events = forms.MultipleChoiceField(
        choices=SUBSCRIBABLE_EVENTS, label="Events", widget=forms.CheckboxSelectMultiple, required=False
    )
    url = forms.CharField(
        required=False,
        max_length=int(URL_CHARACTERS),
        widget=WriteOnlyTextInput(attrs=_MONOSPACE_ATTRIBUTES),
    )
    secret = forms.CharField(
        required=False,
        strip=False,
        max_length=int(NOTIFICATION_SECRET_CHARACTERS),
        widget=forms.PasswordInput(attrs={"class": "input mono", "autocomplete": "new-password"}),
    )
    is_enabled = forms.BooleanField(required=False, initial=True, label="Enabled")
    version = VersionField()

    def __init__(self, *args: Any, kind: str, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="rule-%s", **kwargs)
        self.kind, self.channel = NotificationRule.Kind(kind), CHANNELS[kind]
        self._describe_inputs(self.channel)
        for option in self.channel.options:
            self.fields[f"options.{option.name}"] = _build_option_field(option)
        self.order_fields([name for name in self.fields if name != "is_enabled"])

    def _describe_inputs(self, channel: Channel) -> None:
        """Label the address and the key as the channel does, or remove them."""
        for name, asked in (("url", channel.address), ("secret", channel.key)):
            if asked is None:
                del self.fields[name]
            else:
                self.fields[name].label, self.fields[name].help_text = asked.label, asked.help_text

    def build_spec(self) -> NotificationRuleSpec:
        """Return the spec from the input."""
        data = self.cleaned_data
        return NotificationRuleSpec(
            name=data["name"],
            events=tuple(data["events"]),
            url=data.get("url", ""),
            secret=data.get("secret", ""),
            unsigned=data.get("unsigned", False),
            is_enabled=data["is_enabled"],
            options={option.name: data[f"options.{option.name}"] for option in self.channel.options},
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
        options = {f"options.{name}": value for name, value in rule.options.items()}
        super().__init__(*args, initial=initial | options, kind=rule.kind, **kwargs)
        if "url" in self.fields:
            self.fields["url"].help_text = f"Leave empty to keep the current address ({rule.host})."
        if "secret" in self.fields and (rule.is_signed or self.channel.is_key_required):
            self.fields["secret"].help_text = "Leave empty to keep the current value."
        if not rule.is_signed:
            del self.fields["unsigned"]


def _build_option_field(option: ChannelOption) -> forms.Field:
    """Return the input of an option; the operation checks its value."""
    if option.choices:
        return forms.ChoiceField(choices=option.choices, label=option.label, help_text=option.help_text)
    return forms.CharField(
        required=False, max_length=option.max_length, label=option.label, help_text=option.help_text
    )
