"""GitLab channel: commit statuses and deployments."""

from typing import Any, Final
from urllib.parse import quote, urlencode

from notifications.channels.base import ChannelInput, ChannelOption, DeliveryResult
from notifications.channels.commit_statuses import CommitReport, CommitStatusChannel
from notifications.channels.json_api import JsonApi, ServiceRefused
from notifications.escaping import truncate_line
from notifications.events import ReportedState

DESCRIPTION_CHARACTERS: Final = 255
_STATES: Final = {
    ReportedState.RUNNING: "running",
    ReportedState.SUCCEEDED: "success",
    ReportedState.FAILED: "failed",
    ReportedState.ABORTED: "canceled",
}
_OPEN_STATES: Final = ("created", "running")
# Pages are small: a deployment of a CI job takes several KB of the answer.
_PAGE_ROWS: Final = 20
# An environment may have ended long before the event that reports it again.
_PAGES_OF_ENDED: Final = 5


class GitLabChannel(CommitStatusChannel):
    """Commit statuses and deployments of a GitLab project."""

    service = "GitLab"
    default_url = "https://gitlab.com/api/v4"
    address = ChannelInput(
        "API URL",
        "Only for a GitLab of your own, such as https://gitlab.example.com/api/v4.",
        is_required=False,
    )
    test_path = "user"
    # https://docs.gitlab.com/api/commits/#get-a-single-commit
    commit_path, commit_field = "repository/commits/{}", "id"
    key = ChannelInput(
        "Token",
        "A project access token with the scope api. It is not shown again.",
        is_required=False,
    )
    options = (
        *CommitStatusChannel.options,
        ChannelOption(
            "Branch", "Branch that deployments name. Empty: main.", is_required=False, name="branch"
        ),
    )

    def build_headers(self, token: str) -> dict[str, str]:
        return {"PRIVATE-TOKEN": token}

    def get_repository_url(self, base: str, repository: str) -> str:
        return f"{base}/projects/{quote(repository, safe='')}"

    def report(self, api: JsonApi, base: str, report: CommitReport) -> DeliveryResult:
        # https://docs.gitlab.com/api/commits/#set-commit-pipeline-status
        url = self.get_repository_url(base, report.repository)
        status = {
            "state": _STATES[report.state],
            "name": report.name,
            "target_url": report.url,
            "description": truncate_line(report.text, DESCRIPTION_CHARACTERS),
        }
        status_code = None
        if report.has_status:
            status_code = _send_status(api, f"{url}/statuses/{report.commit}", status)
        for environment, state in report.deployments:
            self._report_deployment(api, url, report, environment, _STATES[state])
        for environment, state in report.replaced:
            if (number := _find_replaced_deployment(api, url, environment, report.commit)) is not None:
                api.send("PUT", f"{url}/deployments/{number}", {"status": _STATES[state]})
        return DeliveryResult(status_code)

    def _report_deployment(
        self, api: JsonApi, url: str, report: CommitReport, environment: str, state: str
    ) -> None:
        """Set the state of the execution's deployment to an environment, or create one."""
        newest = _find_deployment(
            api, url, environment, report, pages=1 if state in _OPEN_STATES else _PAGES_OF_ENDED
        )
        if newest is not None and newest["status"] == state:
            return
        if newest is not None and newest["status"] in _OPEN_STATES:
            api.send("PUT", f"{url}/deployments/{int(newest['id'])}", {"status": state})
            return
        document: dict[str, Any] = {
            "environment": environment,
            "sha": report.commit,
            "ref": report.branch,
            "tag": False,
            "status": state,
        }
        api.send("POST", f"{url}/deployments", document)


def _find_deployment(
    api: JsonApi, url: str, environment: str, report: CommitReport, *, pages: int
) -> dict[str, Any] | None:
    """Return the execution's deployment to an environment, None if the newest pages have none.

    GitLab stores no name of the execution, so it is the newest one of the commit. For an execution that has
    reported none yet, one that ended before another commit was deployed is that of an earlier execution.
    """
    is_reported = environment in report.reported
    query = {"environment": environment, "order_by": "id", "sort": "desc", "per_page": _PAGE_ROWS}
    for page in range(1, (pages if is_reported else 1) + 1):
        # https://docs.gitlab.com/api/deployments/#list-project-deployments: there is no filter for a commit.
        rows = api.send("GET", f"{url}/deployments?{urlencode(query | {'page': page})}").parse()
        place = next((place for place, row in enumerate(rows) if row["sha"] == report.commit), None)
        if place is not None:
            newest: dict[str, Any] = rows[place]
            is_earlier = not is_reported and place > 0 and newest["status"] not in _OPEN_STATES
            return None if is_earlier else newest
        if len(rows) < _PAGE_ROWS:
            return None
    return None


def _find_replaced_deployment(api: JsonApi, url: str, environment: str, commit: str) -> int | None:
    """Return the number of the commit's open deployment, if one of another commit followed it."""
    query = {"environment": environment, "order_by": "id", "sort": "desc", "per_page": _PAGE_ROWS}
    rows = api.send("GET", f"{url}/deployments?{urlencode(query)}").parse()
    # The newest one of the environment may be that of the newer execution, of the same commit.
    place = next((place for place, row in enumerate(rows) if row["sha"] == commit), 0)
    return int(rows[place]["id"]) if place and rows[place]["status"] in _OPEN_STATES else None


def _send_status(api: JsonApi, url: str, status: dict[str, str]) -> int:
    """Set the status of a commit and return the code of the answer; a status that is set already counts."""
    try:
        return api.send("POST", url, status).status_code
    except ServiceRefused as refusal:
        if refusal.result.status_code != 400 or "Cannot transition status" not in refusal.text:
            raise
        return 400
