"""Reports to commits at GitHub and GitLab: the right state, once, and never an older one last."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from guards.address_policy import PUBLIC_ONLY
from notifications.channels.base import ChannelSettings
from notifications.channels.registry import CHANNELS
from notifications.events import EventType, NotificationEvent, ReportedState
from notifications.models import Notification, NotificationRule
from notifications.operations import create_test_notification
from notifications.outbox import notify
from notifications.outbox_sender import send_due_notifications
from notifications.superseded import SUPERSEDED_REASON
from rbac.models import Scope, User
from tests.notifications.conftest import Ruled
from tests.notifications.webhook_receiver import Received, Receiver
from tests.secret_watch.marker import planted

pytestmark = pytest.mark.django_db
COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = planted("token-of-the-repository")
STARTED, SUCCEEDED, FAILED = (
    EventType.EXECUTION_STARTED,
    EventType.EXECUTION_SUCCEEDED,
    EventType.EXECUTION_FAILED,
)
Answer = tuple[int, Mapping[str, str], bytes]


@dataclass
class GitService:
    """The parts of both APIs that are used, with what they stored."""

    statuses: list[dict[str, Any]] = field(default_factory=list)
    deployments: list[dict[str, Any]] = field(default_factory=list)
    states: list[tuple[int, str]] = field(default_factory=list)

    def answer(self, request: Received) -> Answer:
        parts = urlsplit(request.path)
        if "/commits/" in parts.path:
            return 200, {}, json.dumps({"sha": COMMIT, "id": COMMIT}).encode()
        if "/statuses/" in parts.path:
            return self._set_status(json.loads(request.body))
        if parts.path.endswith("/statuses") and not request.body:
            return self._list_states(int(parts.path.split("/")[-2]))
        if not parts.path.endswith("/deployments"):
            return self._change_deployment(parts.path, request)
        if request.body:
            row = {"id": len(self.deployments) + 7, **json.loads(request.body)}
            commit = row.get("sha") or row["ref"]
            row["sha"] = COMMIT if COMMIT.startswith(commit) else commit
            self.deployments.append(row)
            return 201, {}, json.dumps(row).encode()
        wanted = dict(parse_qsl(parts.query))
        names = [name for name in ("sha", "task", "environment") if name in wanted]
        found = [
            row
            for row in self.deployments
            if all(row.get(name, row.get("ref")) == wanted[name] for name in names)
        ]
        most, page = int(wanted["per_page"]), int(wanted.get("page", 1))
        return 200, {}, json.dumps(found[::-1][most * (page - 1) : most * page]).encode()

    def _list_states(self, number: int) -> Answer:
        states = [{"state": state} for changed, state in self.states if changed == number]
        return 200, {}, json.dumps(states[::-1][:1]).encode()

    def _set_status(self, status: dict[str, Any]) -> Answer:
        if self.statuses and self.statuses[-1] == status and "name" in status:
            return 400, {}, b'{"message": "Cannot transition status via :run from :running"}'
        self.statuses.append(status)
        return 201, {}, b"{}"

    def _change_deployment(self, path: str, request: Received) -> Answer:
        if not request.body:
            return 200, {}, b"{}"
        number = int(next(part for part in path.split("/") if part.isdigit()))
        change = json.loads(request.body)
        self.states.append((number, change.get("state") or change["status"]))
        if change.get("state") == "success":
            (environment,) = (row["environment"] for row in self.deployments if row["id"] == number)
            self._deactivate_others(number, environment)
        for row in self.deployments:
            if row["id"] == number and "status" in row:
                row["status"] = change["status"]
        return 200, {}, b"{}"

    def _deactivate_others(self, number: int, environment: str) -> None:
        """Do to the other deployments what GitHub does after a success."""
        current = dict(self.states)
        self.states += [
            (row["id"], "inactive")
            for row in self.deployments
            if row["environment"] == environment and row["id"] != number and current[row["id"]] == "success"
        ]


@pytest.fixture
def git(receiver: Receiver) -> GitService:
    service = GitService()
    receiver.answer = service.answer
    return service


@pytest.fixture(params=["GitHub", "GitLab"])
def rule(
    request: pytest.FixtureRequest, ruled: Ruled, project: Scope, receiver: Receiver
) -> NotificationRule:
    options = {"repository": "team/app", "commit": "sha", "deployments": "yes"}
    return ruled(
        project,
        STARTED,
        SUCCEEDED,
        FAILED,
        kind=request.param,
        url=receiver.address,
        secret=TOKEN,
        options=options,
    )


STATES = {SUCCEEDED: ReportedState.SUCCEEDED, FAILED: ReportedState.FAILED}


def tell(scope: Scope, event: EventType, **more: Any) -> int:
    values: dict[str, Any] = {"execution": "e-1", "pipeline": "release", "environments": ("prod",)}
    values |= {"deployments": (("prod", STATES.get(event, ReportedState.RUNNING)),)}
    values |= {"variables": {"sha": COMMIT}} | more
    return notify(NotificationEvent(event, scope, "Release #1 …", "/deployments/e-1/", **values))


def test_the_state_of_an_execution_stands_at_its_commit_and_deployment(
    rule: NotificationRule, project: Scope, git: GitService, receiver: Receiver
) -> None:
    is_github = rule.kind == "GitHub"
    tell(project, STARTED)
    send_due_notifications()
    tell(project, SUCCEEDED)
    send_due_notifications()
    states = [status["state"] for status in git.statuses]
    assert states == (["pending", "success"] if is_github else ["running", "success"])
    names = {status["context" if is_github else "name"] for status in git.statuses}
    assert names == {"slipway/default/demo/release"}
    assert git.statuses[0]["target_url"].endswith("/deployments/e-1/")
    (deployment,) = git.deployments
    assert (deployment["environment"], deployment["ref"]) == ("prod", COMMIT if is_github else "main")
    assert git.states == ([(7, "in_progress"), (7, "success")] if is_github else [(7, "success")])
    first = receiver.received[0]
    path = "/repos/team/app" if is_github else "/projects/team%2Fapp"
    assert first.path == f"{path}/statuses/{COMMIT}"
    header = first.headers["Authorization" if is_github else "PRIVATE-TOKEN"]
    assert header == (f"Bearer {TOKEN}" if is_github else TOKEN)


def test_a_commit_that_a_tag_shortens_is_reported_by_its_whole_hash(
    rule: NotificationRule, project: Scope, git: GitService, receiver: Receiver
) -> None:
    for event in (STARTED, SUCCEEDED):
        tell(project, event, variables={"sha": COMMIT[:7]})
        send_due_notifications()
    paths = [request.path for request in receiver.received if "/statuses/" in request.path]
    assert {path.split("/statuses/")[1] for path in paths if not path.endswith("/statuses")} == {COMMIT}
    (deployment,) = git.deployments
    assert git.states[-1] == (deployment["id"], "success")


def test_a_token_may_end_with_a_line_break(
    rule: NotificationRule, project: Scope, git: GitService, receiver: Receiver
) -> None:
    rule.secret = f"{TOKEN}\n"
    rule.save(update_fields=["secret"])
    tell(project, STARTED)
    send_due_notifications()
    assert Notification.objects.get().status == "DELIVERED"
    header = receiver.received[0].headers["Authorization" if rule.kind == "GitHub" else "PRIVATE-TOKEN"]
    assert header.removeprefix("Bearer ") == TOKEN


def test_a_repetition_changes_nothing(rule: NotificationRule, project: Scope, git: GitService) -> None:
    tell(project, STARTED)
    send_due_notifications()
    Notification.objects.update(status="WAITING", ended_at=None)
    send_due_notifications()
    assert Notification.objects.get().status == "DELIVERED"
    assert len(git.deployments) == 1
    assert len({json.dumps(status) for status in git.statuses}) == 1


def test_an_older_state_is_never_reported_after_a_newer_one(
    rule: NotificationRule, project: Scope, git: GitService, receiver: Receiver
) -> None:
    receiver.answer = lambda request: (503, {}, TOKEN.encode())
    tell(project, STARTED)
    send_due_notifications()
    assert Notification.objects.get().reason == f"{rule.kind} answered 503."
    receiver.answer = git.answer
    tell(project, FAILED)
    moment = datetime.now(UTC) + timedelta(minutes=5)
    for _ in range(3):
        send_due_notifications(now=lambda: moment)
    assert len(git.statuses) == 1
    assert git.statuses[0]["state"] in ("failure", "failed")
    assert list(Notification.objects.order_by("created_at").values_list("status", flat=True)) == [
        "SUMMARIZED",
        "DELIVERED",
    ]


def send_after(minutes: int = 0) -> None:
    moment = datetime.now(UTC) + timedelta(minutes=minutes, seconds=5)
    for _ in range(3):
        send_due_notifications(now=lambda: moment)


def refuse_once(
    receiver: Receiver, git: GitService, scope: Scope, event: EventType, **more: Any
) -> Notification:
    """Return a notification that waits for its second attempt."""
    receiver.answer = lambda request: (503, {}, b"x")
    tell(scope, event, **more)
    send_due_notifications()
    receiver.answer = git.answer
    return Notification.objects.latest("created_at")


def test_a_late_report_does_not_replace_the_state_of_a_newer_execution_of_the_commit(
    rule: NotificationRule, project: Scope, git: GitService, receiver: Receiver
) -> None:
    late = refuse_once(receiver, git, project, FAILED, execution="e-1")
    tell(project, SUCCEEDED, execution="e-2", variables={"sha": COMMIT[:7]})
    send_after()
    send_after(minutes=5)
    assert [status["state"] for status in git.statuses] == ["success"]
    late.refresh_from_db()
    assert (late.status, late.reason) == ("SUMMARIZED", SUPERSEDED_REASON)


def test_a_late_report_of_a_commit_still_reports_its_other_environments(
    rule: NotificationRule, project: Scope, git: GitService, receiver: Receiver
) -> None:
    both = tuple((name, ReportedState.SUCCEEDED) for name in ("dev", "prod"))
    late = refuse_once(receiver, git, project, SUCCEEDED, execution="e-1", deployments=both)
    tell(project, FAILED, execution="e-2")
    send_after()
    send_after(minutes=5)
    assert [status["state"] for status in git.statuses] == ["failure" if rule.kind == "GitHub" else "failed"]
    assert [row["environment"] for row in git.deployments] == ["prod", "dev"]
    late.refresh_from_db()
    assert late.status == "DELIVERED"


def test_a_late_report_of_another_commit_leaves_the_newer_deployment_as_it_is(
    rule: NotificationRule, project: Scope, git: GitService, receiver: Receiver
) -> None:
    refuse_once(receiver, git, project, SUCCEEDED, execution="e-1", variables={"sha": "a" * 40})
    tell(project, SUCCEEDED, execution="e-2")
    send_after()
    send_after(minutes=5)
    posts = [request.path for request in receiver.received if request.body]
    assert posts[-1].endswith(f"/statuses/{'a' * 40}")
    (deployment,) = git.deployments
    assert COMMIT in (deployment["ref"], deployment["sha"])
    assert "inactive" not in dict(git.states).values()


@pytest.mark.parametrize("end", [SUCCEEDED, FAILED])
def test_a_late_end_closes_the_deployment_that_the_start_has_opened(
    rule: NotificationRule, project: Scope, git: GitService, receiver: Receiver, end: EventType
) -> None:
    older = {"execution": "e-1", "variables": {"sha": "a" * 40}}
    tell(project, STARTED, **older)
    send_due_notifications()
    refuse_once(receiver, git, project, end, **older)
    tell(project, SUCCEEDED, execution="e-2")
    send_after()
    send_after(minutes=5)
    first, second = git.deployments
    if rule.kind == "GitHub":
        states = dict(git.states)
        assert states[first["id"]] == ("inactive" if end == SUCCEEDED else "failure")
        assert states[second["id"]] == "success"
    else:
        assert [first["status"], second["status"]] == ["success" if end == SUCCEEDED else "failed", "success"]


def test_a_later_event_of_an_older_execution_does_not_replace_a_late_report_of_a_deployment(
    rule: NotificationRule, project: Scope, git: GitService, receiver: Receiver
) -> None:
    now = datetime.now(UTC)
    newer = {"execution": "e-2", "execution_created_at": now, "variables": {"sha": "a" * 40}}
    refuse_once(receiver, git, project, SUCCEEDED, **newer)
    tell(project, SUCCEEDED, execution="e-1", execution_created_at=now - timedelta(hours=1))
    send_after()
    send_after(minutes=5)
    assert [row["sha"][0] for row in git.deployments] == ["0", "a"]


@pytest.mark.parametrize("variables", [{}, {"sha": "main"}, {"sha": "../../x"}, {"sha": ""}, {"sha": 7}])
def test_an_execution_without_a_commit_is_not_reported(
    ruled: Ruled, project: Scope, variables: dict[str, Any]
) -> None:
    ruled(project, FAILED, kind="GitHub", secret=TOKEN, options={"repository": "team/app", "commit": "sha"})
    assert tell(project, FAILED, variables=variables) == 0


def test_a_test_reads_the_repository_and_changes_nothing(
    rule: NotificationRule, git: GitService, receiver: Receiver, admin: User
) -> None:
    create_test_notification(actor=admin, rule=rule)
    send_due_notifications()
    assert Notification.objects.get().status == "DELIVERED"
    assert [request.body for request in receiver.received] == [b""]
    assert git.statuses == []


@pytest.mark.parametrize("repository", ["app", "team/../x/", "https://github.com/team/app", "team/app?x"])
def test_a_repository_that_is_none_is_refused(repository: str) -> None:
    settings = ChannelSettings("", TOKEN, {"repository": repository, "commit": "sha"})
    assert [path for path, _ in CHANNELS["GitHub"].list_problems(settings, PUBLIC_ONLY)] == [
        "options.repository"
    ]


def test_each_environment_gets_the_state_of_its_own_deployment(
    rule: NotificationRule, project: Scope, git: GitService
) -> None:
    deployments = (("dev", ReportedState.SUCCEEDED), ("prod", ReportedState.FAILED))
    tell(project, FAILED, environments=("dev", "prod", "dr"), deployments=deployments)
    send_due_notifications()
    failure = "failure" if rule.kind == "GitHub" else "failed"
    assert git.statuses[0]["state"] == failure
    assert [row["environment"] for row in git.deployments] == ["dev", "prod"]
    states = [state for _, state in git.states] or [row["status"] for row in git.deployments]
    assert states == ["success", failure]


def test_equal_pipelines_of_two_projects_have_a_status_each(
    rule: NotificationRule, ruled: Ruled, project: Scope, other_project: Scope, git: GitService
) -> None:
    ruled(other_project, SUCCEEDED, kind=rule.kind, url=rule.url, secret=TOKEN, options=rule.options)
    for scope in (project, other_project):
        tell(scope, SUCCEEDED, execution=f"e-{scope.pk}", deployments=())
    send_due_notifications()
    names = {status.get("context") or status["name"] for status in git.statuses}
    assert names == {f"slipway/{scope.org}/{scope.project}/release" for scope in (project, other_project)}
    assert len(names) == 2


def test_a_notification_of_an_earlier_release_has_one_state_for_all_environments(
    rule: NotificationRule, project: Scope, git: GitService
) -> None:
    tell(project, SUCCEEDED, environments=("dev", "prod"))
    row = Notification.objects.get()
    document = json.loads(row.body)
    del document["deployments"]
    Notification.objects.update(body=json.dumps(document))
    send_due_notifications()
    assert [deployment["environment"] for deployment in git.deployments] == ["dev", "prod"]
    states = [state for _, state in git.states] or [deployment["status"] for deployment in git.deployments]
    assert states == ["success", "success"]


def test_an_environment_that_ended_is_not_reported_over_the_later_deployments_to_it(
    rule: NotificationRule, project: Scope, git: GitService
) -> None:
    dev = ("dev", ReportedState.SUCCEEDED)
    tell(project, STARTED, deployments=(dev, ("prod", ReportedState.RUNNING)))
    send_due_notifications()
    for number in range(21):
        variables = {"sha": f"{number:040x}"}
        tell(project, SUCCEEDED, execution=f"later-{number}", deployments=(dev,), variables=variables)
    # A slow machine may need more than the time of one sender.
    while send_due_notifications():
        pass
    later = [row["id"] for row in git.deployments if row["environment"] == "dev"]
    tell(project, SUCCEEDED, deployments=(dev, ("prod", ReportedState.SUCCEEDED)))
    send_due_notifications()
    assert len(later) == 22
    assert [row["id"] for row in git.deployments if row["environment"] == "dev"] == later
    if rule.kind == "GitHub":
        assert dict(git.states)[later[0]] == "inactive"
        assert dict(git.states)[later[-1]] == "success"


@pytest.mark.parametrize("events", [(SUCCEEDED,), (STARTED, SUCCEEDED)])
def test_a_commit_that_is_deployed_again_is_reported_again(
    rule: NotificationRule, project: Scope, git: GitService, events: tuple[EventType, ...]
) -> None:
    for execution, digit in (("e-1", "1"), ("e-2", "2"), ("e-3", "1")):
        for event in events:
            tell(project, event, execution=execution, variables={"sha": digit * 40})
            send_due_notifications()
    assert [row["sha"][0] for row in git.deployments] == ["1", "2", "1"]
    states = dict(git.states) if rule.kind == "GitHub" else {}
    assert all(row.get("status", states.get(row["id"])) in ("success", "inactive") for row in git.deployments)


def test_a_commit_that_is_deployed_again_is_reported_after_a_refused_start(
    rule: NotificationRule, project: Scope, git: GitService, receiver: Receiver
) -> None:
    for execution, digit in (("e-1", "1"), ("e-2", "2")):
        tell(project, SUCCEEDED, execution=execution, variables={"sha": digit * 40})
        send_due_notifications()
    refuse_once(receiver, git, project, STARTED, execution="e-3", variables={"sha": "1" * 40})
    tell(project, SUCCEEDED, execution="e-3", variables={"sha": "1" * 40})
    send_after(minutes=5)
    assert [row["sha"][0] for row in git.deployments] == ["1", "2", "1"]


def test_a_deployment_whose_answer_was_lost_is_not_created_twice(
    rule: NotificationRule, project: Scope, git: GitService, receiver: Receiver
) -> None:
    def lose_answers(request: Received) -> Answer:
        git.answer(request)
        return 503, {}, b""

    tell(project, SUCCEEDED, execution="e-0", variables={"sha": "2" * 40})
    send_due_notifications()
    # The status arrives, and so does the deployment.
    receiver.answer = lambda request: (
        lose_answers(request)
        if request.body and request.path.endswith("/deployments")
        else git.answer(request)
    )
    tell(project, SUCCEEDED)
    send_due_notifications()
    assert Notification.objects.latest("created_at").status == "WAITING"
    receiver.answer = git.answer
    send_after(minutes=5)
    assert [row["sha"][0] for row in git.deployments] == ["2", "0"]


def test_a_deployment_that_succeeds_after_a_failure_is_reported_again(
    rule: NotificationRule, project: Scope, git: GitService
) -> None:
    for event in (STARTED, FAILED, STARTED, SUCCEEDED):
        tell(project, event)
        send_due_notifications()
    newest = dict(git.states)[git.deployments[-1]["id"]]
    assert newest == "success"
