"""Channels that report executions to the commit that they deploy: GitHub and GitLab."""

import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from guards.address_policy import AddressPolicy
from guards.urls import describe_url_problem
from notifications.channels.base import (
    Channel,
    ChannelOption,
    ChannelSettings,
    Delivery,
    DeliveryResult,
    NewerReports,
    Problems,
    format_reason,
)
from notifications.channels.json_api import JsonApi, ServiceRefused
from notifications.channels.webhook import get_visible_host
from notifications.events import EventType, NotificationEvent, ReportedState

_REPOSITORY: Final = re.compile(r"[\w.-]+(/[\w.-]+)+\Z", re.ASCII)
_REPOSITORY_CHARACTERS: Final = 255
# The longest name of a status that both services take.
_NAME_CHARACTERS: Final = 255
_COMMIT: Final = re.compile(r"[0-9a-fA-F]{7,64}\Z")
# Of a whole hash; GitHub and GitLab have SHA-1.
_HASH_DIGITS: Final = 40
# Every other event leaves the execution running.
_STATES: Final = {
    EventType.EXECUTION_SUCCEEDED: ReportedState.SUCCEEDED,
    EventType.EXECUTION_FAILED: ReportedState.FAILED,
    EventType.EXECUTION_ABORTED: ReportedState.ABORTED,
    EventType.ROLLBACK_ENDED: ReportedState.FAILED,
}
_TOKEN_OPTIONS: Final = (
    ChannelOption(
        "Secret",
        "Reference of a secret with the token, such as org.github_token. Instead of a token.",
        is_required=False,
        name="token_secret",
    ),
    ChannelOption(
        "Git connector",
        "Reference of a connector whose password is the token. Instead of a token.",
        is_required=False,
        name="connector",
    ),
)
_REPOSITORY_OPTION: Final = ChannelOption(
    "Repository",
    "Such as team/app. Empty: that of the push or image that triggered the execution.",
    is_required=False,
    name="repository",
)
_COMMIT_OPTION: Final = ChannelOption(
    "Commit variable",
    "Name of the pipeline variable with the hash of the commit. Empty: the commit of the push or image that "
    "triggered the execution. Executions without a commit are not reported.",
    is_required=False,
    name="commit",
    max_length=128,
)
_DEPLOYMENTS_OPTION: Final = ChannelOption(
    "Deployments",
    "Whether to report a deployment to each environment, beside the status of the commit.",
    name="deployments",
    choices=(("yes", "Report deployments"), ("no", "Only the status of the commit")),
)


@dataclass(frozen=True)
class CommitTarget:
    """Repository and commit that an execution is reported to."""

    repository: str
    commit: str


def find_commit_target(
    service: str, options: Mapping[str, str], fact: NotificationEvent
) -> CommitTarget | None:
    """Return where a rule for a Git service reports an event to, None for nowhere.

    Options that are empty are taken from the trigger of the execution, if it is not of another service.
    """
    is_of_service = fact.git_service in ("", service.lower())
    repository = options.get("repository") or (fact.repository if is_of_service else "")
    variable = options.get("commit", "")
    commit = str(fact.variables.get(variable, "")) if variable else (fact.commit if is_of_service else "")
    if not (_COMMIT.match(commit) and is_repository(repository)):
        return None
    return CommitTarget(repository, commit)


def is_repository(name: str) -> bool:
    """Return whether a text has owner and name of a repository."""
    return bool(_REPOSITORY.match(name)) and ".." not in name and len(name) <= _REPOSITORY_CHARACTERS


@dataclass(frozen=True)
class CommitReport:
    """What is reported: one status for each pipeline and commit, so that a repetition changes nothing."""

    repository: str
    commit: str
    state: ReportedState
    name: str
    text: str
    url: str
    execution: str
    deployments: tuple[tuple[str, ReportedState], ...]
    """Environments whose deployment is reported too, with its state."""
    replaced: tuple[tuple[str, ReportedState], ...]
    """Environments that a newer execution reported, where a deployment of this one is open: with its end."""
    branch: str
    has_status: bool
    """Whether the status of the commit is reported: no newer one is."""
    reported: frozenset[str]
    """Environments that earlier events of the execution reported."""


class CommitStatusChannel(Channel):
    """A Git service that shows the state of executions at commits."""

    service: ClassVar[str]
    default_url: ClassVar[str]
    # What a test reads with the token, below the API's URL, without a repository.
    test_path: ClassVar[str]
    # Where the repository tells of a commit, and the name of its hash there.
    commit_path: ClassVar[str]
    commit_field: ClassVar[str]
    takes_digests: ClassVar[bool] = False
    reports_commits: ClassVar[bool] = True
    replaces_older: ClassVar[bool] = True
    options: ClassVar[tuple[ChannelOption, ...]] = (
        *_TOKEN_OPTIONS,
        _REPOSITORY_OPTION,
        _COMMIT_OPTION,
        _DEPLOYMENTS_OPTION,
    )

    def list_problems(self, settings: ChannelSettings, reach: AddressPolicy) -> Problems:
        repository = settings.options.get("repository", "")
        if repository and not is_repository(repository):
            yield "options.repository", "Enter owner and name of the repository, such as team/app."
        if settings.url and (problem := describe_url_problem(settings.url, reach)):
            yield "url", format_reason(f"{problem}.")

    def describe_target(self, settings: ChannelSettings) -> str:
        host, repository = get_visible_host(settings.url or self.default_url), settings.options["repository"]
        return f"{host}/{repository}"[:255] if repository else host

    def send(self, delivery: Delivery, reach: AddressPolicy) -> DeliveryResult:
        api = JsonApi(self.service, self.build_headers(delivery.secret.strip()), reach)
        base = (delivery.url or self.default_url).rstrip("/")
        try:
            if delivery.event == EventType.TEST:
                repository = delivery.options.get("repository", "")
                url = self.get_repository_url(base, repository) if repository else f"{base}/{self.test_path}"
                return DeliveryResult(api.send("GET", url).status_code)
            report = _build_report(delivery)
            if len(report.commit) < _HASH_DIGITS:
                report = replace(report, commit=self._find_commit(api, base, report))
            return self.report(api, base, report)
        except ServiceRefused as refusal:
            return refusal.result

    def _find_commit(self, api: JsonApi, base: str, report: CommitReport) -> str:
        """Return the whole hash of a commit: statuses and deployments are found by nothing else.

        Raises `ServiceRefused`.
        """
        path = self.commit_path.format(report.commit)
        answer = api.send("GET", f"{self.get_repository_url(base, report.repository)}/{path}")
        document = answer.parse()
        commit = str(document.get(self.commit_field) or "") if isinstance(document, dict) else ""
        if not commit.startswith(report.commit.lower()) or not _COMMIT.match(commit):
            reason = f"{self.service} answered without the hash of commit {report.commit}."
            raise ServiceRefused(DeliveryResult(answer.status_code, reason))
        return commit

    def has_report(self, delivery: Delivery) -> bool:
        if delivery.event == EventType.TEST:
            return True
        report = _build_report(delivery)
        return report.has_status or bool(report.deployments or report.replaced)

    @abstractmethod
    def build_headers(self, token: str) -> dict[str, str]:
        """Return the headers with the token."""

    @abstractmethod
    def get_repository_url(self, base: str, repository: str) -> str:
        """Return the URL of a repository below the API's URL."""

    @abstractmethod
    def report(self, api: JsonApi, base: str, report: CommitReport) -> DeliveryResult:
        """Report the state of an execution. Raises `ServiceRefused`."""


def compare_newer_reports(
    document: Mapping[str, Any], newer_documents: Iterable[Mapping[str, Any]]
) -> NewerReports:
    """Return what the documents of other executions, of later events, report of the same repository."""
    has_status, environments = False, set[str]()
    for newer in newer_documents:
        if newer.get("repository") == document.get("repository"):
            has_status = has_status or _has_same_status(document, newer)
            # The later event of an older execution names all environments that it deployed to, long ago too.
            if _get_execution_time(newer) >= _get_execution_time(document):
                environments |= {environment for environment, _ in newer.get("deployments", ())}
    return NewerReports(has_status, frozenset(environments))


def list_reported_environments(documents: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Return the environments that documents report deployments to."""
    return frozenset(
        environment for document in documents for environment, _ in document.get("deployments", ())
    )


def _has_same_status(document: Mapping[str, Any], newer: Mapping[str, Any]) -> bool:
    if _build_status_name(document) != _build_status_name(newer):
        return False
    commit, newer_commit = (str(each["commit"]).lower() for each in (document, newer))
    # One of them may be shortened.
    return commit.startswith(newer_commit) or newer_commit.startswith(commit)


def _get_execution_time(document: Mapping[str, Any]) -> str:
    """Return when an execution was created, "" in a document of an earlier release."""
    return document.get("execution_created_at") or ""


def _build_status_name(document: Mapping[str, Any]) -> str:
    """Return the name of a status, with the project: two may deploy one commit by equal pipelines."""
    parts = ("slipway", document["org"], document["project"], document["pipeline"])
    return "/".join(part for part in parts if part)[:_NAME_CHARACTERS]


def _build_report(delivery: Delivery) -> CommitReport:
    document, options = delivery.document, delivery.options
    state = _STATES.get(EventType(delivery.event), ReportedState.RUNNING)
    # A notification of an earlier release has one state for all environments.
    rows = document.get("deployments", [(name, state) for name in document["environments"]])
    deployments = [(environment, ReportedState(deployed)) for environment, deployed in rows]
    if options.get("deployments") == "no":
        deployments = []
    newer = delivery.newer.environments
    return CommitReport(
        # A notification of an earlier release names none.
        repository=document.get("repository") or options["repository"],
        commit=document["commit"],
        state=state,
        name=_build_status_name(document),
        text=document["text"],
        url=document["url"],
        execution=document["execution"],
        deployments=tuple((name, deployed) for name, deployed in deployments if name not in newer),
        replaced=tuple(
            (name, deployed)
            for name, deployed in deployments
            if name in newer & delivery.reported and deployed != ReportedState.RUNNING
        ),
        branch=options.get("branch") or "main",
        has_status=not delivery.newer.has_status,
        reported=delivery.reported,
    )
