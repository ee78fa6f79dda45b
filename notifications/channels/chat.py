"""Chat channels: Slack, Microsoft Teams, Discord, Google Chat, and other services by an Apprise URL."""

from typing import ClassVar

from guards.address_policy import AddressPolicy
from guards.urls import describe_url_problem
from notifications.channels.apprise_plugins import (
    AddressNotUsable,
    AppriseTarget,
    find_host_problem,
    parse_apprise_url,
    parse_service_url,
)
from notifications.channels.base import (
    Channel,
    ChannelInput,
    ChannelSettings,
    Delivery,
    DeliveryResult,
    Problems,
    format_reason,
)
from notifications.channels.messages import build_message
from notifications.channels.webhook import get_visible_host

_KEPT = "It is stored encrypted and not shown again."


class AppriseChannel(Channel):
    """A service that Apprise reaches over HTTP."""

    address: ClassVar[ChannelInput] = ChannelInput(
        "Apprise URL", f"Such as mmosts://chat.example.com/token or ntfys://ntfy.example.com/topic. {_KEPT}"
    )

    def parse(self, url: str) -> AppriseTarget:
        """Return the target of an address. Raises `AddressNotUsable`."""
        return parse_apprise_url(url)

    def list_problems(self, settings: ChannelSettings, reach: AddressPolicy) -> Problems:
        if not settings.url:
            return
        try:
            problem = find_host_problem(self.parse(settings.url), reach)
        except AddressNotUsable as error:
            problem = str(error)
        if problem:
            yield "url", format_reason(f"{problem.rstrip('.')}.")

    def describe_target(self, settings: ChannelSettings) -> str:
        return self.parse(settings.url).host

    def send(self, delivery: Delivery, reach: AddressPolicy) -> DeliveryResult:
        try:
            target = self.parse(delivery.url)
        except AddressNotUsable as problem:
            return DeliveryResult(None, format_reason(str(problem)))
        return target.send(build_message(delivery.document), reach)


class ServiceChannel(AppriseChannel):
    """A chat service whose webhook URL is entered as the service shows it."""

    scheme: ClassVar[str]

    def parse(self, url: str) -> AppriseTarget:
        return parse_service_url(self.scheme, url)

    def list_problems(self, settings: ChannelSettings, reach: AddressPolicy) -> Problems:
        if settings.url and (problem := describe_url_problem(settings.url, reach)):
            yield "url", format_reason(f"{problem}.")
            return
        yield from super().list_problems(settings, reach)

    def describe_target(self, settings: ChannelSettings) -> str:
        return get_visible_host(settings.url)


class SlackChannel(ServiceChannel):
    """A Slack channel, by an incoming webhook."""

    scheme = "slack"
    address = ChannelInput(
        "Webhook URL", f"https://hooks.slack.com/services/… of an incoming webhook. {_KEPT}"
    )


class TeamsChannel(ServiceChannel):
    """A channel of Microsoft Teams, by a workflow that takes webhook requests."""

    scheme = "workflow"
    address = ChannelInput(
        "Workflow URL", f"HTTP URL of the workflow “When a Teams webhook request is received”. {_KEPT}"
    )


class DiscordChannel(ServiceChannel):
    """A Discord channel, by a webhook."""

    scheme = "discord"
    address = ChannelInput("Webhook URL", f"https://discord.com/api/webhooks/… of a channel. {_KEPT}")


class GoogleChatChannel(ServiceChannel):
    """A space of Google Chat, by a webhook."""

    scheme = "gchat"
    address = ChannelInput("Webhook URL", f"https://chat.googleapis.com/v1/spaces/… of a space. {_KEPT}")
