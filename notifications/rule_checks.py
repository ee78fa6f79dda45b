"""Checks of the values that a rule enters for its channel."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from guards.text import find_text_problem
from notifications.channels.base import Channel, ChannelOption, ChannelSettings
from notifications.channels.registry import CHANNELS
from notifications.models import NotificationRule
from web.http.client import get_outgoing_reach

Error = dict[str, str]


class ChannelValues(Protocol):
    """Entered values of a channel; empty ones of a saved rule are kept."""

    @property
    def url(self) -> str: ...
    @property
    def secret(self) -> str: ...
    @property
    def unsigned(self) -> bool: ...
    @property
    def options(self) -> Mapping[str, str]: ...


def list_channel_problems(rule: NotificationRule, values: ChannelValues) -> list[Error]:
    """Return the errors of the values, each with its field."""
    channel = CHANNELS.get(rule.kind)
    if channel is None:
        return [{"path": "kind", "message": f"Known kinds: {', '.join(CHANNELS)}."}]
    if errors := [*_check_inputs(channel, rule, values), *_check_options(channel, values.options)]:
        return errors
    settings = ChannelSettings(values.url, values.secret, values.options)
    return [
        {"path": path, "message": message}
        for path, message in channel.list_problems(settings, get_outgoing_reach())
    ]


def _check_inputs(channel: Channel, rule: NotificationRule, values: ChannelValues) -> Iterator[Error]:
    """Yield an error for each missing or unknown secret input."""
    inputs = (
        ("url", channel.address, values.url, "Enter the URL of the receiver."),
        ("secret", channel.key, values.secret, "Enter the key."),
    )
    for path, entry, value, message in inputs:
        if entry is None and value:
            yield {"path": path, "message": "This kind of channel has no such value."}
        elif entry is not None and entry.is_required and not value and not rule.pk:
            yield {"path": path, "message": message}
    if values.unsigned and channel.is_key_required:
        yield {"path": "secret", "message": "This kind of channel needs its key."}


def _check_options(channel: Channel, options: Mapping[str, str]) -> Iterator[Error]:
    for name in sorted(set(options) - {option.name for option in channel.options}):
        yield {"path": f"options.{name[:64]}", "message": "This kind of channel has no such option."}
    for option in channel.options:
        if message := _describe_option_problem(option, options.get(option.name, "")):
            yield {"path": f"options.{option.name}", "message": message}


def _describe_option_problem(option: ChannelOption, value: str) -> str:
    if not value:
        return f"Enter a value for {option.label}." if option.is_required and not option.choices else ""
    if option.choices and value not in dict(option.choices):
        return f"Select one of {', '.join(choice for choice, _ in option.choices)}."
    if len(value) > option.max_length or find_text_problem(value):
        return f"At most {option.max_length} characters, without NUL."
    return ""
