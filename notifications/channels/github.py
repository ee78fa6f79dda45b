"""GitHub channel: commit statuses and deployments."""

from typing import Any, Final
from urllib.parse import urlencode

from notifications.channels.base import ChannelInput, DeliveryResult
from notifications.channels.commit_statuses import CommitReport, CommitStatusChannel
from notifications.channels.json_api import JsonApi
from notifications.escaping import truncate_line
from notifications.events import ReportedState

DESCRIPTION_CHARACTERS: Final = 140
_STATES: Final = {
    ReportedState.RUNNING: "pending",
    ReportedState.SUCCEEDED: "success",
    ReportedState.FAILED: "failure",
    ReportedState.ABORTED: "error",
}
_DEPLOYMENT_STATES: Final = {**_STATES, ReportedState.RUNNING: "in_progress"}


class GitHubChannel(CommitStatusChannel):
    """Commit statuses and deployments of a GitHub repository."""

    service = "GitHub"
    default_url = "https://api.github.com"
    address = ChannelInput(
        "API URL",
        "Only for GitHub Enterprise, such as https://github.example.com/api/v3.",
        is_required=False,
    )
    test_path = "rate_limit"
    # https://docs.github.com/en/rest/commits/statuses#get-the-combined-status-for-a-specific-reference:
    # the token may read statuses, but perhaps no commits.
    commit_path, commit_field = "commits/{}/status", "sha"
    key = ChannelInput(
        "Token",
        "With write access to commit statuses and deployments of the repository. It is not shown again.",
        is_required=False,
    )

    def build_headers(self, token: str) -> dict[str, str]:
        return {
            "Authorization": f"Bearer {token}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
        }

    def get_repository_url(self, base: str, repository: str) -> str:
        return f"{base}/repos/{repository}"

    def report(self, api: JsonApi, base: str, report: CommitReport) -> DeliveryResult:
        # https://docs.github.com/en/rest/commits/statuses: the newest status of a context counts.
        url = self.get_repository_url(base, report.repository)
        description = truncate_line(report.text, DESCRIPTION_CHARACTERS)
        status = {
            "state": _STATES[report.state],
            "target_url": report.url,
            "description": description,
            "context": report.name,
        }
        status_code = None
        if report.has_status:
            status_code = api.send("POST", f"{url}/statuses/{report.commit}", status).status_code
        for environment, state in report.deployments:
            number = self._get_or_create_deployment(api, url, report, environment)
            if state == ReportedState.SUCCEEDED and _has_succeeded(api, f"{url}/deployments/{number}"):
                continue
            change = {
                "state": _DEPLOYMENT_STATES[state],
                "log_url": report.url,
                "description": description,
            }
            api.send("POST", f"{url}/deployments/{number}/statuses", change)
        for environment, state in report.replaced:
            found = self._find_deployment(api, url, report, environment)
            # A success would make the newer deployment inactive.
            ended = "inactive" if state == ReportedState.SUCCEEDED else _DEPLOYMENT_STATES[state]
            change = {"state": ended, "log_url": report.url, "description": description}
            if found is not None:
                api.send("POST", f"{url}/deployments/{found}/statuses", change)
        return DeliveryResult(status_code)

    def _get_or_create_deployment(
        self, api: JsonApi, url: str, report: CommitReport, environment: str
    ) -> int:
        """Return the number of the execution's deployment to an environment."""
        if (number := self._find_deployment(api, url, report, environment)) is not None:
            return number
        document: dict[str, Any] = {
            "ref": report.commit,
            "task": _build_task(report),
            "environment": environment,
            "auto_merge": False,
            "required_contexts": [],
            "description": report.name,
        }
        return int(api.send("POST", f"{url}/deployments", document).parse()["id"])

    def _find_deployment(self, api: JsonApi, url: str, report: CommitReport, environment: str) -> int | None:
        """Return the number of the deployment, which its task identifies: a repetition finds it."""
        query = {"sha": report.commit, "task": _build_task(report), "environment": environment, "per_page": 1}
        rows = api.send("GET", f"{url}/deployments?{urlencode(query)}").parse()
        return int(rows[0]["id"]) if rows else None


def _build_task(report: CommitReport) -> str:
    return f"slipway/{report.execution}"


def _has_succeeded(api: JsonApi, deployment_url: str) -> bool:
    """Return whether a success is reported already; a later deployment may have made it inactive."""
    # Another success would make the later deployment inactive instead.
    # https://docs.github.com/en/rest/deployments/statuses#create-a-deployment-status
    newest = api.send("GET", f"{deployment_url}/statuses?per_page=1").parse()
    return any(status["state"] in ("success", "inactive") for status in newest)
