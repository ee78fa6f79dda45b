"""Paging channels: PagerDuty and Opsgenie, with severity and a key per trouble."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final
from urllib.parse import quote

from guards.address_policy import AddressPolicy
from notifications.channels.base import (
    Channel,
    ChannelInput,
    ChannelOption,
    ChannelSettings,
    Delivery,
    DeliveryResult,
)
from notifications.channels.json_api import JsonApi, ServiceRefused
from notifications.channels.messages import Message, Severity, build_message

_REGION: Final = ChannelOption(
    "Region", "Where the account of the service is.", name="region", choices=(("us", "US"), ("eu", "EU"))
)


@dataclass(frozen=True)
class PagingChannel(Channel):
    """A paging service with an HTTP API; `endpoints` are its URLs by region."""

    endpoints: Mapping[str, str] = field(default_factory=dict)
    service: ClassVar[str]
    options: ClassVar[tuple[ChannelOption, ...]] = (_REGION,)
    takes_digests: ClassVar[bool] = False
    # An alert that arrives after its resolution would stay open.
    replaces_older: ClassVar[bool] = True

    def get_endpoint(self, options: Mapping[str, str]) -> str:
        """Return the URL of the service in the region of a rule."""
        return self.endpoints[options.get("region") or "us"]

    def describe_target(self, settings: ChannelSettings) -> str:
        return self.get_endpoint(settings.options)

    def post(
        self, url: str, document: Mapping[str, Any], headers: Mapping[str, str], reach: AddressPolicy
    ) -> DeliveryResult:
        """Send a JSON document to the service."""
        try:
            return DeliveryResult(
                JsonApi(self.service, headers, reach).send("POST", url, document).status_code
            )
        except ServiceRefused as refusal:
            return refusal.result


@dataclass(frozen=True)
class PagerDutyChannel(PagingChannel):
    """A service of PagerDuty, by the Events API v2."""

    endpoints: Mapping[str, str] = field(
        default_factory=lambda: {
            "us": "https://events.pagerduty.com",
            "eu": "https://events.eu.pagerduty.com",
        }
    )
    service = "PagerDuty"
    key = ChannelInput("Integration key", "Of an Events API v2 integration. It is not shown again.")

    def send(self, delivery: Delivery, reach: AddressPolicy) -> DeliveryResult:
        message = build_message(delivery.document)
        # https://developer.pagerduty.com/docs/send-alert-event
        event: dict[str, Any] = {
            "routing_key": delivery.secret.strip(),
            "event_action": "resolve" if message.is_resolution else "trigger",
            "dedup_key": message.key,
        }
        if not message.is_resolution:
            event |= {
                "client": "Slipway",
                "client_url": message.url,
                "links": [{"href": message.url, "text": "Open in Slipway"}],
                "payload": _build_pagerduty_payload(message, delivery.document),
            }
        return self.post(f"{self.get_endpoint(delivery.options)}/v2/enqueue", event, {}, reach)


@dataclass(frozen=True)
class OpsgenieChannel(PagingChannel):
    """A team of Opsgenie, by the key of an API integration."""

    endpoints: Mapping[str, str] = field(
        default_factory=lambda: {"us": "https://api.opsgenie.com", "eu": "https://api.eu.opsgenie.com"}
    )
    service = "Opsgenie"
    key = ChannelInput("API key", "Of an API integration of the team. It is not shown again.")

    def send(self, delivery: Delivery, reach: AddressPolicy) -> DeliveryResult:
        message = build_message(delivery.document)
        alerts = f"{self.get_endpoint(delivery.options)}/v2/alerts"
        headers = {"Authorization": f"GenieKey {delivery.secret.strip()}"}
        # https://docs.opsgenie.com/docs/alert-api; an alias keeps 512 characters.
        if message.is_resolution:
            url = f"{alerts}/{quote(message.key, safe='')}/close?identifierType=alias"
            return self.post(url, {"source": "Slipway", "note": message.text}, headers, reach)
        alert = {
            "message": message.text[:130],
            "alias": message.key,
            "description": message.body,
            "source": "Slipway",
            "priority": _OPSGENIE_PRIORITIES[message.severity],
            "tags": ["slipway", delivery.event],
            "details": _build_details(delivery.document),
        }
        return self.post(alerts, alert, headers, reach)


_OPSGENIE_PRIORITIES: Final = {
    Severity.ERROR: "P2",
    Severity.WARNING: "P3",
    Severity.INFO: "P5",
    Severity.SUCCESS: "P5",
}


def _build_pagerduty_payload(message: Message, document: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "summary": message.text,
        "source": document["scope"],
        "severity": "info" if message.severity == Severity.SUCCESS else message.severity.value,
        "timestamp": document["at"],
        "class": document["event"],
        "custom_details": _build_details(document),
    }


def _build_details(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of the event that have a value, as texts."""
    lists = {name: ", ".join(document[name]) for name in ("services", "environments")}
    texts = {
        name: document[name] or ""
        for name in ("scope", "status", "pipeline", "execution", "delegate", "cause", "advice")
    }
    return {name: value for name, value in (texts | lists).items() if value}
