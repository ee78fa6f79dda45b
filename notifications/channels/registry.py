"""All channels by the kind of a rule."""

from typing import Final

from notifications.channels.base import Channel
from notifications.channels.chat import (
    AppriseChannel,
    DiscordChannel,
    GoogleChatChannel,
    SlackChannel,
    TeamsChannel,
)
from notifications.channels.github import GitHubChannel
from notifications.channels.gitlab import GitLabChannel
from notifications.channels.mail import MailChannel
from notifications.channels.paging import OpsgenieChannel, PagerDutyChannel
from notifications.channels.webhook import WebhookChannel

CHANNELS: Final[dict[str, Channel]] = {
    "Webhook": WebhookChannel(),
    "Slack": SlackChannel(),
    "Teams": TeamsChannel(),
    "Email": MailChannel(),
    "PagerDuty": PagerDutyChannel(),
    "Opsgenie": OpsgenieChannel(),
    "Discord": DiscordChannel(),
    "GoogleChat": GoogleChatChannel(),
    "Apprise": AppriseChannel(),
    "GitHub": GitHubChannel(),
    "GitLab": GitLabChannel(),
}
