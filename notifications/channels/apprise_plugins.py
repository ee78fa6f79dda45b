"""Plug-ins of Apprise that may be used, with the product's HTTP client inside."""

import logging
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from apprise import AppriseAsset, NotifyFormat, NotifyType, PersistentStoreMode
from apprise.common import OverflowMode

from guards.address_policy import AddressPolicy
from guards.urls import describe_url_problem
from notifications.channels.base import DeliveryResult, describe_refusal, format_reason
from notifications.channels.guarded_requests import Exchange, GuardedRequests
from notifications.channels.messages import Message, Severity

# Apprise writes addresses with tokens and answers of services into its log.
logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)


@dataclass(frozen=True)
class Plugin:
    """A plug-in by its place in `apprise.plugins`; a self-hosted service has its host in the address."""

    module: str
    class_name: str
    label: str
    is_self_hosted: bool = False


# An allow list: other plug-ins of Apprise start programs, reach this machine, read files, or speak other
# protocols than HTTP. Mail has a channel of its own.
PLUGINS: Final = {
    "slack": Plugin("slack", "NotifySlack", "Slack"),
    "workflow": Plugin("workflows", "NotifyWorkflows", "Teams", is_self_hosted=True),
    "workflows": Plugin("workflows", "NotifyWorkflows", "Teams", is_self_hosted=True),
    "discord": Plugin("discord", "NotifyDiscord", "Discord"),
    "gchat": Plugin("google_chat", "NotifyGoogleChat", "Google Chat"),
    "gotify": Plugin("gotify", "NotifyGotify", "Gotify", is_self_hosted=True),
    "gotifys": Plugin("gotify", "NotifyGotify", "Gotify", is_self_hosted=True),
    "mmost": Plugin("mattermost", "NotifyMattermost", "Mattermost", is_self_hosted=True),
    "mmosts": Plugin("mattermost", "NotifyMattermost", "Mattermost", is_self_hosted=True),
    "ntfy": Plugin("ntfy", "NotifyNtfy", "ntfy", is_self_hosted=True),
    "ntfys": Plugin("ntfy", "NotifyNtfy", "ntfy", is_self_hosted=True),
    "pover": Plugin("pushover", "NotifyPushover", "Pushover"),
    "rocket": Plugin("rocketchat", "NotifyRocketChat", "Rocket.Chat", is_self_hosted=True),
    "rockets": Plugin("rocketchat", "NotifyRocketChat", "Rocket.Chat", is_self_hosted=True),
    "tgram": Plugin("telegram", "NotifyTelegram", "Telegram"),
    "webex": Plugin("webexteams", "NotifyWebexTeams", "Webex"),
    "wxteams": Plugin("webexteams", "NotifyWebexTeams", "Webex"),
    "zulip": Plugin("zulip", "NotifyZulip", "Zulip"),
}
# Parameters that read files, change the connection, wait, or send other texts than the message.
REFUSED_PARAMETERS: Final = frozenset(
    ("attach", "template", "verify", "redirect", "rto", "cto", "retry", "wait", "store", "format", "overflow")
)
_NOTIFY_TYPES: Final = {
    Severity.INFO: NotifyType.INFO,
    Severity.SUCCESS: NotifyType.SUCCESS,
    Severity.WARNING: NotifyType.WARNING,
    Severity.ERROR: NotifyType.FAILURE,
}

_exchange = Exchange()
_guarded_requests = GuardedRequests(_exchange)


class AddressNotUsable(ValueError):
    """Error raised for an address that no permitted plug-in reads."""


@dataclass(frozen=True)
class AppriseTarget:
    """A plug-in with an address; `arguments` are those of its constructor."""

    scheme: str
    plugin: Plugin
    arguments: dict[str, Any]

    @property
    def host(self) -> str:
        """Return the displayed part of the address, which is not the token that stands first in some."""
        if not self.plugin.is_self_hosted:
            return f"{self.scheme}://…"
        port = self.arguments.get("port")
        return f"{self.scheme}://{self.arguments.get('host') or ''}{f':{port}' if port else ''}"[:255]

    def send(self, message: Message, reach: AddressPolicy) -> DeliveryResult:
        """Deliver a message once."""
        service = _load_class(self.plugin)(**self.arguments)
        _require_no_files(service)
        # The outbox repeats: a service must not let this thread sleep until a time of its choice.
        service.throttle = _continue_at_once
        _exchange.begin(reach)
        is_accepted = service.notify(
            body=message.body,
            title=message.title,
            notify_type=_NOTIFY_TYPES[message.severity],
            body_format=NotifyFormat.TEXT,
        )
        status_code = _exchange.status_code
        if is_accepted:
            return DeliveryResult(status_code)
        if _exchange.problem or status_code is None:
            reason = _exchange.problem or f"{self.plugin.label} could not be reached"
            return DeliveryResult(None, format_reason(f"{reason.rstrip('.')}."))
        if 200 <= status_code < 300:
            return DeliveryResult(status_code, f"{self.plugin.label} did not accept the message.")
        return DeliveryResult(status_code, describe_refusal(self.plugin.label, status_code))


def parse_apprise_url(url: str) -> AppriseTarget:
    """Return the plug-in of an address such as `ntfys://host/topic`. Raises `AddressNotUsable`."""
    scheme = url.partition("://")[0].lower()
    if "://" not in url or scheme not in PLUGINS:
        known = ", ".join(sorted(PLUGINS))
        raise AddressNotUsable(f"An address begins with one of these schemes: {known}.")
    names = {name.lower() for name, _ in parse_qsl(urlsplit(url).query, keep_blank_values=True)}
    if refused := sorted(names & REFUSED_PARAMETERS):
        raise AddressNotUsable(f"The parameter {refused[0]} is not permitted. Remove it.")
    return _build_target(scheme, _load_class(PLUGINS[scheme]).parse_url(url))


def parse_service_url(scheme: str, url: str) -> AppriseTarget:
    """Return the plug-in of a URL as the service itself shows it. Raises `AddressNotUsable`."""
    plugin = PLUGINS[scheme]
    results = _load_class(plugin).parse_native_url(url)
    if not results:
        raise AddressNotUsable(f"This is no URL of a {plugin.label} webhook. Copy it from {plugin.label}.")
    return _build_target(scheme, results)


def _build_target(scheme: str, results: dict[str, Any] | None) -> AppriseTarget:
    plugin = PLUGINS[scheme]
    unreadable = AddressNotUsable(f"{plugin.label} cannot be reached with this address: it is incomplete.")
    if not results:
        raise unreadable
    arguments = {
        **results,
        "asset": _build_asset(),
        "format": NotifyFormat.TEXT,
        "overflow": OverflowMode.TRUNCATE,
        "include_image": False,
    }
    try:
        service = _load_class(plugin)(**arguments)
    except TypeError as error:
        # Apprise's error for every wrong argument; its text repeats the token.
        raise unreadable from error
    _require_no_files(service)
    return AppriseTarget(scheme, plugin, arguments)


def find_host_problem(target: AppriseTarget, reach: AddressPolicy) -> str:
    """Return the problem of a self-hosted service's host, without resolving it; "" for none."""
    if not target.plugin.is_self_hosted:
        return ""
    port = target.arguments.get("port")
    return describe_url_problem(
        f"https://{target.arguments.get('host') or ''}{f':{port}' if port else ''}", reach
    )


def _load_class(plugin: Plugin) -> Any:
    """Return the class of a plug-in, whose module gets the product's HTTP client."""
    module = import_module(f"apprise.plugins.{plugin.module}")
    module.requests = _guarded_requests  # type: ignore[attr-defined]
    return getattr(module, plugin.class_name)


def _continue_at_once(*args: Any, **options: Any) -> None:
    """Stand in for the pauses of a plug-in between its requests."""


def _require_no_files(service: Any) -> None:
    if len(getattr(service, "template", None) or ()):
        raise AddressNotUsable("Templates are not permitted.")


def _build_asset() -> AppriseAsset:
    return AppriseAsset(
        app_id="Slipway",
        app_desc="Slipway",
        app_url="",
        image_url_mask="",
        image_url_logo="",
        async_mode=False,
        secure_logging=True,
        http_redirects=False,
        storage_mode=PersistentStoreMode.MEMORY,
    )
