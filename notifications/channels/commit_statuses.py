"""Channels that report executions to the commit that they deploy: GitHub and GitLab."""

import re
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from guards.address_policy import AddressPolicy
from guards.urls import describe_url_problem
from notifications.channels.base import (
    Channel,
    ChannelOption,
    ChannelSettings,
    Delivery,
    DeliveryResult,
    Problems,
    format_reason,
)
from notifications.channels.json_api import JsonApi, ServiceRefused
from notifications.channels.webhook import get_visible_host
from notifications.events import EventType

_REPOSITORY: Final = re.compile(r"[\w.-]+(/[\w.-]+)+\Z", re.ASCII)
_COMMIT: Final = re.compile(r"[0-9a-fA-F]{7,64}\Z")
_REPOSITORY_OPTION: Final = ChannelOption("Repository", "Such as team/app.", name="repository")
_COMMIT_OPTION: Final = ChannelOption(
    "Commit variable",
    "Name of the pipeline variable with the hash of the commit. Executions without it are not reported.",
    name="commit",
    max_length=128,
)
_DEPLOYMENTS_OPTION: Final = ChannelOption(
    "Deployments",
    "Whether to report a deployment to each environment, beside the status of the commit.",
    name="deployments",
    choices=(("yes", "Report deployments"), ("no", "Only the status of the commit")),
)


def find_commit(options: Mapping[str, str], variables: Mapping[str, Any]) -> str:
    """Return the commit that the variable of a rule names; "" without one."""
    value = str(variables.get(options.get("commit", ""), ""))
    return value if _COMMIT.match(value) else ""


@dataclass(frozen=True)
class CommitReport:
    """What is reported: one status for each pipeline and commit, so that a repetition changes nothing."""

    repository: str
    commit: str
    event: EventType
    name: str
    text: str
    url: str
    execution: str
    environments: tuple[str, ...]
    """Environments whose deployment is reported too."""
    branch: str


class CommitStatusChannel(Channel):
    """A Git service that shows the state of executions at commits."""

    service: ClassVar[str]
    default_url: ClassVar[str]
    takes_digests: ClassVar[bool] = False
    reports_commits: ClassVar[bool] = True
    options: ClassVar[tuple[ChannelOption, ...]] = (
        _REPOSITORY_OPTION,
        _COMMIT_OPTION,
        _DEPLOYMENTS_OPTION,
    )

    def list_problems(self, settings: ChannelSettings, reach: AddressPolicy) -> Problems:
        repository = settings.options.get("repository", "")
        if not _REPOSITORY.match(repository) or ".." in repository:
            yield "options.repository", "Enter owner and name of the repository, such as team/app."
        if settings.url and (problem := describe_url_problem(settings.url, reach)):
            yield "url", format_reason(f"{problem}.")

    def describe_target(self, settings: ChannelSettings) -> str:
        return f"{get_visible_host(settings.url or self.default_url)}/{settings.options['repository']}"[:255]

    def send(self, delivery: Delivery, reach: AddressPolicy) -> DeliveryResult:
        api = JsonApi(self.service, self.build_headers(delivery.secret), reach)
        base = (delivery.url or self.default_url).rstrip("/")
        try:
            if delivery.event == EventType.TEST:
                repository = delivery.options["repository"]
                return DeliveryResult(api.send("GET", self.get_repository_url(base, repository)).status_code)
            return self.report(api, base, _build_report(delivery))
        except ServiceRefused as refusal:
            return refusal.result

    @abstractmethod
    def build_headers(self, token: str) -> dict[str, str]:
        """Return the headers with the token."""

    @abstractmethod
    def get_repository_url(self, base: str, repository: str) -> str:
        """Return the URL of a repository below the API's URL."""

    @abstractmethod
    def report(self, api: JsonApi, base: str, report: CommitReport) -> DeliveryResult:
        """Report the state of an execution. Raises `ServiceRefused`."""


def _build_report(delivery: Delivery) -> CommitReport:
    document, options = delivery.document, delivery.options
    reports_deployments = options.get("deployments") != "no"
    return CommitReport(
        repository=options["repository"],
        commit=document["commit"],
        event=EventType(delivery.event),
        name=f"slipway/{document['pipeline']}",
        text=document["text"],
        url=document["url"],
        execution=document["execution"],
        environments=tuple(document["environments"]) if reports_deployments else (),
        branch=options.get("branch") or "main",
    )
