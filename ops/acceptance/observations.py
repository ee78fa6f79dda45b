"""Observations of ECS during a scenario, with ids, names, addresses and times replaced."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Self

from aws.apis.ecs_types import parse_timestamp

_IDS = (
    ("deployment", re.compile(r"ecs-svc/\d+")),
    ("target group", re.compile(r"arn:aws[\w-]*:elasticloadbalancing:[^\s)]*:targetgroup/[^\s)]+")),
    ("task", re.compile(r"(?:arn:aws[\w-]*:ecs:[^\s)]*:task/[^\s)]*?)?\b[0-9a-f]{32}\b")),
)
_SCRUBBED = (
    ("(ARN)", re.compile(r"arn:aws[\w-]*:[^\s),]+")),
    ("(digest)", re.compile(r"sha256:[0-9a-f]{64}")),
    ("(id)", re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")),
    ("(time)", re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.]*(?:Z|\+\d\d:?\d\d)?")),
    ("(address)", re.compile(r"\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?:/\d+)?(?::\d+)?\b")),
    ("(account)", re.compile(r"\b\d{12}\b")),
    ("(resource)", re.compile(r"\b(?:eni|subnet|sg|vpc|i)-[0-9a-f]{8,17}\b")),
)


@dataclass
class Normalizer:
    """Replacement of what differs from run to run; ids get numbers in the order of their appearance."""

    names: Mapping[str, str] = field(default_factory=dict)
    """Names to replace, such as the service's by `service`."""
    aliases: dict[str, str] = field(default_factory=dict)

    def get_alias(self, kind: str, identifier: str) -> str:
        """Return the name of an id, such as `task 2`."""
        key = identifier.rpartition("/")[2] if kind == "task" else identifier
        if key not in self.aliases:
            number = sum(alias.startswith(f"{kind} ") for alias in self.aliases.values()) + 1
            self.aliases[key] = f"{kind} {number}"
        return self.aliases[key]

    def normalize(self, text: str) -> str:
        """Return a text without names, ids, ARNs, addresses and times."""
        for name, replacement in self.names.items():
            text = text.replace(name, replacement) if name else text
        for kind, pattern in _IDS:
            text = pattern.sub(partial(self._replace, kind), text)
        # "(task 0123…)" is "(task task 1)" by now.
        text = re.sub(r"\b(?:task|deployment|target-group) (?=(?:task|deployment|target group) \d)", "", text)
        for replacement, pattern in _SCRUBBED:
            text = pattern.sub(replacement, text)
        return text

    def _replace(self, kind: str, match: re.Match[str]) -> str:
        return self.get_alias(kind, match.group())


@dataclass(frozen=True)
class ObservedEvent:
    """Service event, in seconds since the scenario began."""

    seconds: float
    text: str


@dataclass
class ObservedDeployment:
    """Deployment of a service, with the states that it had, in order."""

    name: str
    states: list[str] = field(default_factory=list)
    failed_tasks: int = 0

    def has_state(self, text: str) -> bool:
        return any(text in state for state in self.states)


@dataclass
class ObservedTask:
    """Task of a service; moments are seconds since the scenario began."""

    name: str
    deployment: str
    statuses: list[str] = field(default_factory=list)
    created: float | None = None
    started: float | None = None
    stopped: float | None = None
    stop_code: str = ""
    stopped_reason: str = ""
    exit_codes: dict[str, int | None] = field(default_factory=dict)


@dataclass
class Observation:
    """All that was seen of one scenario."""

    scenario: str
    status: str = ""
    outcome: str = ""
    failure: str = ""
    seconds: float = 0.0
    events: list[ObservedEvent] = field(default_factory=list)
    deployments: list[ObservedDeployment] = field(default_factory=list)
    tasks: list[ObservedTask] = field(default_factory=list)
    target_states: list[str] = field(default_factory=list)
    """States that targets of a group had, each once, in order."""
    refused: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        return cls(
            **{
                **record,
                "events": [ObservedEvent(**event) for event in record["events"]],
                "deployments": [ObservedDeployment(**row) for row in record["deployments"]],
                "tasks": [ObservedTask(**task) for task in record["tasks"]],
            }
        )

    def list_texts(self) -> list[str]:
        return [event.text for event in self.events]


def parse_seconds(value: object, origin: float) -> float | None:
    """Return an AWS time as seconds since `origin`; None without a time."""
    moment = parse_timestamp(value)
    return round(moment.timestamp() - origin, 1) if moment else None
