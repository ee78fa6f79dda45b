"""Base of trigger kinds: settings, requests, events and checks."""

import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from guards.limits import TRIGGER_SETTING_CHARACTERS, TRIGGER_SETTING_LINES
from pipelines.models import Pipeline
from rbac.models import User

_DELIVERY_ID = re.compile(r"[\w.:-]{1,100}", re.ASCII)


class RequestRefused(Exception):
    """A request whose sender does not know the secret. The answer gives no details."""


@dataclass(frozen=True)
class HookRequest:
    """Request to the address of a trigger; the names of `headers` are read without regard to case.

    `token` is that of the query, for senders that can send nothing else.
    """

    headers: Mapping[str, str]
    body: bytes
    received_at: datetime
    token: str = ""


@dataclass(frozen=True)
class TriggerEvent:
    """An event as its kind has read it.

    `key` is the same for all deliveries of one event. `values` are available below `<+trigger.…>`, beside the
    payload.
    """

    key: str
    delivery_id: str
    summary: str
    values: Mapping[str, Any] = field(default_factory=dict)
    payload: Any = field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """One condition of a trigger, and why it does not hold ("" if it does)."""

    text: str
    reason: str = ""

    @property
    def holds(self) -> bool:
        return not self.reason


@dataclass(frozen=True)
class Setting:
    """A setting of a kind, as a field of its form; a list has one value in each line."""

    name: str
    label: str
    help: str = ""
    is_required: bool = False
    is_list: bool = False
    choices: tuple[tuple[str, str], ...] = ()
    default: str = ""

    def format_value(self, value: Any) -> str:
        """Return a value as text."""
        if isinstance(value, list):
            return ", ".join(value) or "any"
        return dict(self.choices).get(value, value) or "any"

    def find_problem(self, value: Any) -> str:
        """Return the problem of a value, "" if it is valid."""
        if self.is_list:
            return self._find_list_problem(value)
        if not isinstance(value, str):
            return "must be a text"
        if len(value) > TRIGGER_SETTING_CHARACTERS:
            return f"must have at most {TRIGGER_SETTING_CHARACTERS}"
        if self.choices and value not in dict(self.choices):
            return f"must be one of {', '.join(dict(self.choices))}"
        return "is required" if self.is_required and not value.strip() else ""

    def _find_list_problem(self, value: Any) -> str:
        if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
            return "must be a list of texts"
        if len(value) > TRIGGER_SETTING_LINES:
            return f"must have at most {TRIGGER_SETTING_LINES}"
        if any(len(item) > TRIGGER_SETTING_CHARACTERS for item in value):
            return f"each value must have at most {TRIGGER_SETTING_CHARACTERS}"
        return "is required" if self.is_required and not value else ""


@dataclass(frozen=True)
class SetupStep:
    """Step of setting up a sender, with a command to copy if there is one."""

    title: str
    text: str
    command: str = ""


@dataclass(frozen=True)
class WatchSource:
    """A place that a trigger looks at every few seconds; `kind` is one of `TriggerWatch.Kind`.

    What was found there counts as long as `settings` stay the same.
    """

    kind: str
    subject: str
    settings: Mapping[str, Any]
    interval_seconds: int


class TriggerKind:
    """A kind of trigger: a subclass in `pipelines.triggers.kinds` with `@register_kind`."""

    identifier: ClassVar[str]
    title: ClassVar[str]
    # What starts a run, as the end of "Starts a run …".
    description: ClassVar[str]
    settings: ClassVar[tuple[Setting, ...]] = ()
    # The values below <+trigger.…> that its events have, with their descriptions for the form.
    values: ClassVar[Mapping[str, str]] = {}
    # Whether it has an address and a secret, and whether its events have a payload.
    has_address: ClassVar[bool] = False
    has_payload: ClassVar[bool] = True
    # Whether it has times that the form shows.
    has_times: ClassVar[bool] = False
    # What the page for trying a trigger starts with.
    sample_payload: ClassVar[str] = "{}"

    def list_problems(self, spec: Mapping[str, Any]) -> list[dict[str, str]]:
        """Return the problems of settings, as {"path", "message"}; kinds add rules of their own."""
        by_name = {setting.name: setting for setting in self.settings}
        known = ", ".join(by_name) or "none"
        problems = [
            {"path": f"spec.{name}", "message": f"unknown setting; this kind has: {known}"}
            for name in sorted(set(spec) - set(by_name))
        ]
        for name, setting in by_name.items():
            if problem := setting.find_problem(spec.get(name, [] if setting.is_list else setting.default)):
                problems.append({"path": f"spec.{name}", "message": problem})
        return problems

    def list_reference_problems(
        self, spec: Mapping[str, Any], pipeline: Pipeline, actor: User
    ) -> Iterable[dict[str, str]]:
        """Return the problems of resources that valid settings name, for the pipeline and who saves them."""
        return ()

    def list_setup_steps(self, spec: Mapping[str, Any], address: str) -> list[SetupStep]:
        """Return how to set up the sender; `address` is that of the trigger."""
        return []

    def authenticate(self, spec: Mapping[str, Any], secret: str, request: HookRequest) -> None:
        """Check that the sender knows the secret, in constant time. Raises `RequestRefused`."""
        raise RequestRefused

    def read_events(
        self, spec: Mapping[str, Any], payload: Any, headers: Mapping[str, str]
    ) -> list[TriggerEvent]:
        """Return the events of an authenticated request; none for the ping of a provider, for example.

        Raises `BadInput` for a body of another form.
        """
        raise NotImplementedError

    def list_checks(self, spec: Mapping[str, Any], values: Mapping[str, Any], payload: Any) -> list[Check]:
        """Return the checks of the settings for an event; the conditions follow them."""
        return []

    def list_watch_sources(self, spec: Mapping[str, Any]) -> list[WatchSource]:
        """Return the places that valid settings have it look at, in tasks of their own."""
        return []

    def find_watched_subject(self, spec: Mapping[str, Any], event: TriggerEvent) -> str:
        """Return the subject of the watch that knows more about a delivered event, "" without one."""
        return ""

    def build_due_event(self, spec: Mapping[str, Any], due_at: datetime) -> TriggerEvent:
        """Return the event of a time that has come, for kinds with times of their own."""
        raise NotImplementedError

    def list_next_times(self, spec: Mapping[str, Any], now: datetime) -> list[datetime]:
        """Return the next times of valid settings, for the form; none for kinds without times."""
        return []

    def get_next_due(self, spec: Mapping[str, Any], after: datetime) -> datetime | None:
        """Return when the kind looks for events next; None for a kind that is told about them."""
        return None


def require_equal(expected: str, given: str) -> None:
    """Compare what a sender must know in constant time. Raises `RequestRefused`."""
    if not hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace")):
        raise RequestRefused


def read_delivery_id(headers: Mapping[str, str], name: str) -> str:
    """Return the delivery id in a header, "" if it has none or another form."""
    delivery_id = headers.get(name, "")
    return delivery_id if _DELIVERY_ID.fullmatch(delivery_id) else ""
