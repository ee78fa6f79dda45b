"""Forms of notification rules."""

from typing import Any

from django import forms

from guards.limits import NOTIFICATION_DIGEST_MINUTES, NOTIFICATION_SECRET_CHARACTERS, URL_CHARACTERS
from notifications.channels.base import Channel, ChannelOption
from notifications.channels.registry import CHANNELS
from notifications.events import OUTCOMES, SUBSCRIBABLE_EVENTS
from notifications.filters import FILTER_NAMES
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
# Then follow the inputs of the channel, the events and the filters.
_FIRST_FIELDS = ("in_scope", "name", "identifier")


class WriteOnlyTextInput(forms.TextInput):
    """Input for an address with a token; it is empty again after an error."""

    def format_value(self, value: Any) -> str:
        return ""


def _build_names_field(label: str, noun: str) -> forms.CharField:
    """Return a field with identifiers; empty means all."""
    return forms.CharField(
        required=False,
        max_length=4_000,
        label=label,
        help_text=f"Identifiers, separated with commas or spaces. Empty: all {noun}.",
        widget=forms.TextInput(attrs=_MONOSPACE_ATTRIBUTES),
    )


class NotificationRuleForm(PageForm):
    """A rule for a kind of channel, which decides the inputs; neither address nor key is ever shown again."""

    pairs = (("services", "environments"),)
    name = forms.CharField(max_length=128)
    events = forms.MultipleChoiceField(
        choices=SUBSCRIBABLE_EVENTS, label="Events", widget=forms.CheckboxSelectMultiple, required=False
    )
    outcomes = forms.MultipleChoiceField(
        choices=OUTCOMES,
        label="Outcomes",
        widget=forms.CheckboxSelectMultiple,
        required=False,
        help_text="Only executions that end like this, if any are selected.",
    )
    services = _build_names_field("Services", "services")
    environments = _build_names_field("Environments", "environments")
    pipelines = _build_names_field("Pipelines", "pipelines")
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
    digest_minutes = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=int(NOTIFICATION_DIGEST_MINUTES),
        label="Digest interval in minutes",
        help_text="At most one message in this time, with a summary. Empty: a message for each event.",
    )
    is_enabled = forms.BooleanField(required=False, initial=True, label="Enabled")
    version = VersionField()

    def __init__(self, *args: Any, kind: str, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="rule-%s", **kwargs)
        self.kind, self.channel = NotificationRule.Kind(kind), CHANNELS[kind]
        self._describe_inputs(self.channel)
        if not self.channel.takes_digests:
            del self.fields["digest_minutes"]
        for option in self.channel.options:
            self.fields[f"options.{option.name}"] = _build_option_field(option)
        options = [name for name in self.fields if name.startswith("options.")]
        self.order_fields([*_FIRST_FIELDS, *options, "url", "secret", "unsigned"])

    def _describe_inputs(self, channel: Channel) -> None:
        """Label the address and the key as the channel does, or remove them."""
        inputs = {"url": channel.address, "secret": channel.key}
        needed = {name for name, entry in inputs.items() if entry is not None and entry.is_required}
        self.conditional_fields = frozenset(needed)  # type: ignore[misc]
        for name, entry in inputs.items():
            if entry is None:
                del self.fields[name]
            else:
                self.fields[name].label, self.fields[name].help_text = entry.label, entry.help_text

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
            digest_minutes=data.get("digest_minutes") or 0,
            filters={name: _split_names(data[name]) for name in FILTER_NAMES},
            options={option.name: data[f"options.{option.name}"] for option in self.channel.options},
        )


class NewNotificationRuleForm(ScopedForm, IdentifierForm, NotificationRuleForm):
    """Form for a new rule."""

    in_scope = ScopeField(help_text="Events in this scope and below are sent.")
    identifier = IdentifierField(
        help_text=("Used in the API. It cannot be changed. Generated from the name if empty.")
    )


class EditNotificationRuleForm(NotificationRuleForm):
    """A rule that is there."""

    unsigned = forms.BooleanField(required=False, label="Remove the signing secret")

    def __init__(self, *args: Any, rule: NotificationRule, **kwargs: Any) -> None:
        initial = {name: getattr(rule, name) for name in ("name", "events", "is_enabled", "version")}
        options = {f"options.{name}": value for name, value in rule.options.items()}
        names = {name: " ".join(rule.filters.get(name, ())) for name in FILTER_NAMES if name != "outcomes"}
        initial["digest_minutes"] = rule.digest_minutes or None
        initial |= options | names | {"outcomes": rule.filters.get("outcomes", [])}
        super().__init__(*args, initial=initial, kind=rule.kind, **kwargs)
        if "url" in self.fields:
            is_shown = "url" in self.conditional_fields
            current = f"address ({rule.host})" if is_shown else "value, if there is one"
            self.fields["url"].help_text = f"Leave empty to keep the current {current}."
        if "secret" in self.fields and (
            rule.is_signed or self.channel.is_key_required or self.channel.reports_commits
        ):
            self.fields["secret"].help_text = "Leave empty to keep the current value."
        if not rule.is_signed:
            del self.fields["unsigned"]


def _split_names(value: str | list[str]) -> tuple[str, ...]:
    """Return the names of a text or of a choice, each once."""
    names = value.replace(",", " ").split() if isinstance(value, str) else value
    return tuple(dict.fromkeys(names))


def _build_option_field(option: ChannelOption) -> forms.Field:
    """Return the input of an option; the operation checks its value."""
    if option.choices:
        return forms.ChoiceField(choices=option.choices, label=option.label, help_text=option.help_text)
    return forms.CharField(
        required=option.is_required,
        max_length=option.max_length,
        label=option.label,
        help_text=option.help_text,
    )
