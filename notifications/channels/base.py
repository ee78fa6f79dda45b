"""Channels: what a rule enters for each, and how each delivers a notification."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from guards.address_policy import AddressPolicy
from guards.text import sanitize_text

USER_AGENT: Final = "Slipway-Notifications/1"
REASON_CHARACTERS: Final = 512
TIMEOUT_SECONDS: Final = 15.0


@dataclass(frozen=True)
class NewerReports:
    """Reports to commits since an event: whether of the same status, and environments of newer executions."""

    has_status: bool = False
    environments: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Delivery:
    """One attempt to deliver; `key` is the same for every attempt, `sent_at` is its time in Unix seconds."""

    key: str
    event: str
    url: str
    secret: str
    body: str
    sent_at: int
    options: Mapping[str, str] = field(default_factory=dict)
    newer: NewerReports = NewerReports()
    reported: frozenset[str] = frozenset()
    """Environments that earlier events of the same execution reported."""

    @property
    def document(self) -> dict[str, Any]:
        """Return the event as the JSON document that the webhook gets."""
        document: dict[str, Any] = json.loads(self.body)
        return document


@dataclass(frozen=True)
class DeliveryResult:
    """Result of a delivery: the status of the service or None, and the reason of a failure ("" if none).

    With `is_partial`, the service took it for some of the recipients: it is not repeated, and others follow.
    """

    status_code: int | None
    reason: str = ""
    is_partial: bool = False

    @property
    def is_delivered(self) -> bool:
        return not self.reason


@dataclass(frozen=True)
class ChannelInput:
    """Label and help of something that a rule enters, and whether it can be left out."""

    label: str
    help_text: str
    is_required: bool = True


@dataclass(frozen=True)
class ChannelOption(ChannelInput):
    """A value of a channel that is no secret; with `choices`, one of them."""

    name: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    max_length: int = 255


@dataclass(frozen=True)
class ChannelSettings:
    """Entered values of a rule for its channel; an address or secret that is kept is not among them."""

    url: str = ""
    secret: str = ""
    options: Mapping[str, str] = field(default_factory=dict)


Problems = Iterator[tuple[str, str]]


class Channel(ABC):
    """Kind of service that notifications go to.

    `address` and `key` describe the two secret inputs of a rule; None means that the channel has no such
    input. `options` are its other inputs.
    """

    address: ClassVar[ChannelInput | None] = None
    key: ClassVar[ChannelInput | None] = None
    options: ClassVar[tuple[ChannelOption, ...]] = ()
    # Whether a summary of several events can stand for each of them.
    takes_digests: ClassVar[bool] = True
    # Whether only events of executions with a commit are sent, and of those of one execution the newest.
    reports_commits: ClassVar[bool] = False
    # Whether a newer notification of one subject makes an older one that waits needless, and harmful.
    replaces_older: ClassVar[bool] = False

    @property
    def is_key_required(self) -> bool:
        """Return whether a rule needs a key."""
        return self.key is not None and self.key.is_required

    @abstractmethod
    def send(self, delivery: Delivery, reach: AddressPolicy) -> DeliveryResult:
        """Deliver once and return the result. Raises no error for a service that refuses or is away."""

    def has_report(self, delivery: Delivery) -> bool:
        """Return whether something is left to deliver beside the newer reports."""
        return True

    @abstractmethod
    def describe_target(self, settings: ChannelSettings) -> str:
        """Return the displayed part of the target, which holds no secret."""

    def list_problems(self, settings: ChannelSettings, reach: AddressPolicy) -> Problems:
        """Yield the field and the message of everything that cannot be used."""
        yield from ()


def format_reason(text: str) -> str:
    """Return the reason of a failure as one line."""
    line = " ".join(sanitize_text(text).split())
    return f"{line[:1].upper()}{line[1:]}"[:REASON_CHARACTERS]


def describe_refusal(service: str, status_code: int) -> str:
    """Return the reason for a status that means no success; the text of the answer is never part of it."""
    if 300 <= status_code < 400:
        return f"{service} answered with a redirect, which is not followed. Check the address."
    if status_code in (401, 403):
        return f"{service} answered {status_code}: the address or key is not accepted. Enter a new one."
    if status_code in (404, 410):
        return f"{service} answered {status_code}: the receiver no longer exists. Enter a new address or key."
    if status_code == 429:
        return f"{service} answered 429: it gets too many messages. Reduce the events of this rule."
    return f"{service} answered {status_code}."
