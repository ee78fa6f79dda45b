"""The start of a further attempt: from which stage, by whom, and once only."""

import pytest
from django.db import IntegrityError
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from deployments.approvals.operations import explain_refusal
from deployments.execution import operations
from deployments.execution.operations import retry_execution, run_pipeline, start_attempt
from deployments.execution.planning.attempts import MOST_ATTEMPTS, list_stage_choices
from deployments.freezes.operations import RunFrozen
from deployments.models import Execution, FreezeWindow, Interrupt
from rbac.models import AuditEntry, Scope, User, UserGroup
from rbac.operations.api_keys import create_api_key
from rbac.policy import Forbidden
from tests.api.sample_project import PIPELINE, World, make_world
from tests.fixtures.people import make_person
from web.http.problems import BadInput, Conflict

pytestmark = pytest.mark.django_db
STAGES = ("build", "test", "deploy")


@pytest.fixture
def world(project: Scope, admin: User) -> World:
    return make_world(project, admin, admin)


@pytest.fixture
def execution(world: World, admin: User) -> Execution:
    """An execution whose second stage of three has failed."""
    head, stage = PIPELINE.split("    - stage:\n", 1)
    stages = (stage.replace("identifier: deploy", f"identifier: {name}") for name in STAGES)
    world.pipeline.yaml = head + "".join(
        f"    - stage:\n{text.replace('name: Deploy', f'name: {name.title()}')}"
        for name, text in zip(STAGES, stages, strict=True)
    )
    world.pipeline.save(update_fields=["yaml"])
    execution = run_pipeline(actor=admin, pipeline=world.pipeline, artifact_tag="v2")
    return end(execution, "SUCCESS", "FAILED", "SKIPPED")


@pytest.fixture
def client(admin: User) -> APIClient:
    _, token = create_api_key(actor=admin, user=admin, name="a program")
    client = APIClient(raise_request_exception=False)
    client.credentials(HTTP_X_API_KEY=token)
    return client


def end(execution: Execution, *statuses: str) -> Execution:
    """End an execution, with these statuses of its stages."""
    failures = [status for status in statuses if status not in ("SUCCESS", "SKIPPED", "IGNORE_FAILED")]
    execution.status = failures[0] if failures else "SUCCESS"
    execution.due_at = None
    execution.save(update_fields=["status", "due_at"])
    for position, status in enumerate(statuses):
        execution.stages.filter(position=position).update(status=status)
    return execution


def list_statuses(execution: Execution) -> list[str]:
    return list(execution.stages.order_by("position").values_list("status", flat=True))


@pytest.mark.parametrize(
    ("statuses", "obstacles"),
    [
        (("SUCCESS", "FAILED", "SKIPPED"), ("", "", "Stage Test before it failed.")),
        (("SUCCESS", "SUCCESS", "SUCCESS"), ("", "", "")),
        (("IGNORE_FAILED", "SKIPPED", "FAILED"), ("", "", "")),
        (("ABORTED", "SKIPPED", "SKIPPED"), ("", *["Stage Build before it was aborted."] * 2)),
        (("EXPIRED", "SKIPPED", "SKIPPED"), ("", *["Stage Build before it expired."] * 2)),
        (("APPROVAL_REJECTED", "SKIPPED", "SUCCESS"), ("", *["Stage Build before it was rejected."] * 2)),
        (("SUCCESS", "ROLLED_BACK", "ROLLED_BACK"), ("", "", "Stage Test before it was rolled back.")),
    ],
)
def test_a_retry_can_begin_at_each_stage_whose_predecessors_completed(
    execution: Execution, statuses: tuple[str, ...], obstacles: tuple[str, ...]
) -> None:
    end(execution, *statuses)
    assert tuple(choice.obstacle for choice in list_stage_choices(execution)) == obstacles


def test_the_failed_stage_is_the_default(execution: Execution, admin: User) -> None:
    attempt = start_attempt(actor=admin, execution=execution)
    assert list_statuses(attempt) == ["SKIPPED", "QUEUED", "QUEUED"]
    assert (attempt.pipeline_version, attempt.yaml, attempt.artifact) == (
        execution.pipeline_version,
        execution.yaml,
        execution.artifact,
    )


def test_an_earlier_stage_can_be_chosen(execution: Execution, admin: User) -> None:
    attempt = start_attempt(actor=admin, execution=execution, stage="build")
    assert list_statuses(attempt) == ["QUEUED"] * 3


def test_a_stage_after_the_failed_one_cannot_be_chosen(execution: Execution, admin: User) -> None:
    with pytest.raises(Conflict, match="A retry cannot begin at stage Deploy. Stage Test before it failed."):
        start_attempt(actor=admin, execution=execution, stage="deploy")
    with pytest.raises(BadInput, match="does not exist"):
        start_attempt(actor=admin, execution=execution, stage="nowhere")


def test_a_success_is_retried_from_a_named_stage_or_whole(execution: Execution, admin: User) -> None:
    end(execution, "SUCCESS", "SUCCESS", "SUCCESS")
    with pytest.raises(BadInput, match="No stage of this execution failed"):
        start_attempt(actor=admin, execution=execution)
    attempt = start_attempt(actor=admin, execution=execution, stage="deploy")
    assert list_statuses(attempt) == ["SKIPPED", "SKIPPED", "QUEUED"]
    end(attempt, "SKIPPED", "SKIPPED", "SUCCESS")
    assert list_statuses(start_attempt(actor=admin, execution=attempt, whole=True)) == ["QUEUED"] * 3


def test_a_later_version_of_the_pipeline_does_not_count(
    execution: Execution, world: World, admin: User
) -> None:
    world.pipeline.yaml = PIPELINE
    world.pipeline.save(update_fields=["yaml"])
    for options in ({}, {"whole": True}):
        attempt = start_attempt(actor=admin, execution=execution, **options)
        assert attempt.yaml == execution.yaml != PIPELINE
        execution = end(attempt, "SUCCESS", "FAILED", "SKIPPED")


def test_the_digest_of_the_image_is_kept(execution: Execution, admin: User) -> None:
    artifact = {**execution.artifact, "digest": "sha256:1", "source": {"connector_id": 1}}
    Execution.objects.filter(pk=execution.pk).update(artifact=artifact)
    assert start_attempt(actor=admin, execution=execution, whole=True).artifact == artifact


def test_outputs_of_a_reused_stage_are_kept_with_their_secrets(execution: Execution, admin: User) -> None:
    step = execution.stages.get(identifier="build").steps.filter(section="EXECUTION").first()
    assert step is not None
    step.outputs, step.secret_outputs = {"url": "x", "key": "•••"}, '{"key": "wonderful"}'
    step.save(update_fields=["outputs", "secret_outputs"])
    attempt = start_attempt(actor=admin, execution=execution)
    copy = attempt.stages.get(identifier="build").steps.get(identifier=step.identifier)
    assert copy.all_outputs == {"url": "x", "key": "wonderful"}
    assert (copy.status, copy.started_at) == ("SKIPPED", None)
    assert set(copy.actions.values_list("state", flat=True)) == {"SKIPPED"}


def test_a_repeated_request_returns_the_same_attempt(execution: Execution, admin: User) -> None:
    first = start_attempt(actor=admin, execution=execution)
    assert start_attempt(actor=admin, execution=execution) == first
    assert Execution.objects.filter(first_attempt=execution.pk).count() == 1
    with pytest.raises(Conflict, match="Attempt 2 of this run has started"):
        start_attempt(actor=admin, execution=execution, whole=True)
    other = make_person("other", "account_admin", Scope.objects.account())
    with pytest.raises(Conflict, match="Attempt 2 of this run has started"):
        start_attempt(actor=other, execution=execution)


def test_a_crash_before_the_end_leaves_nothing(
    execution: Execution, admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise RuntimeError

    before = Execution.objects.count()
    monkeypatch.setattr(operations, "_log_start", crash)
    with pytest.raises(RuntimeError):
        start_attempt(actor=admin, execution=execution)
    monkeypatch.undo()
    assert Execution.objects.count() == before
    attempt = start_attempt(actor=admin, execution=execution)
    execution.refresh_from_db()
    assert execution.next_attempt == attempt


def test_the_database_admits_one_next_attempt(execution: Execution, admin: User) -> None:
    attempt = start_attempt(actor=admin, execution=execution)
    other = run_pipeline(actor=admin, pipeline=execution.pipeline)
    with pytest.raises(IntegrityError):
        Execution.objects.filter(pk=other.pk).update(next_attempt=attempt)


def test_an_execution_that_runs_or_waits_for_a_request_is_not_retried(
    execution: Execution, admin: User
) -> None:
    running = run_pipeline(actor=admin, pipeline=execution.pipeline)
    with pytest.raises(Conflict, match="has not ended"):
        start_attempt(actor=admin, execution=running, whole=True)
    retry_execution(actor=admin, execution=execution)
    with pytest.raises(Conflict, match="will be applied shortly"):
        start_attempt(actor=admin, execution=execution)


def test_a_former_attempt_is_not_retried_in_place(execution: Execution, admin: User) -> None:
    start_attempt(actor=admin, execution=execution)
    execution.refresh_from_db()
    with pytest.raises(Conflict, match="Retry the last attempt"):
        retry_execution(actor=admin, execution=execution)
    assert not Interrupt.objects.filter(execution=execution).exists()


def test_the_number_of_attempts_is_limited(execution: Execution, admin: User) -> None:
    Execution.objects.filter(pk=execution.pk).update(attempt=MOST_ATTEMPTS)
    with pytest.raises(Conflict, match="100 attempts at most"):
        start_attempt(actor=admin, execution=execution)


def test_a_deleted_pipeline_is_not_retried(execution: Execution, admin: User) -> None:
    type(execution.pipeline).objects.filter(pk=execution.pipeline_id).update(deleted_at=execution.created_at)
    with pytest.raises(Conflict, match="This pipeline was deleted"):
        start_attempt(actor=admin, execution=execution)


def test_a_freeze_of_a_stage_that_runs_blocks_the_retry(
    execution: Execution, world: World, admin: User
) -> None:
    FreezeWindow.objects.all().delete()
    FreezeWindow.objects.create(
        scope=Scope.objects.account(),
        identifier="x",
        name="X",
        begins="2020-01-01T00:00",
        ends="2999-01-01T00:00",
    )
    with pytest.raises(RunFrozen):
        start_attempt(actor=admin, execution=execution)
    attempt = start_attempt(actor=admin, execution=execution, override_freeze=True)
    assert AuditEntry.objects.get(action="freezewindow.override").thing_id == str(attempt.pk)


def test_a_retry_is_in_the_audit_trail(execution: Execution, admin: User) -> None:
    attempt = start_attempt(actor=admin, execution=execution)
    entry = AuditEntry.objects.get(action="pipeline.execute", thing_id=str(attempt.pk))
    assert (entry.after["attempt"], entry.after["retry_of"]) == (2, execution.number)


def test_a_viewer_cannot_retry(execution: Execution, project: Scope) -> None:
    viewer = make_person("viewer", "viewer", project)
    with pytest.raises(Forbidden):
        start_attempt(actor=viewer, execution=execution)


def test_whoever_started_an_earlier_attempt_is_an_executor_too(
    execution: Execution, world: World, admin: User
) -> None:
    other = make_person("other", "account_admin", Scope.objects.account())
    attempt = start_attempt(actor=other, execution=execution)
    approval = world.approval
    approval.execution, approval.excludes_executor = attempt, True
    group = UserGroup.objects.create(scope=world.scope, identifier="release", name="Release")
    group.users.add(admin)
    approval.groups.set([group])
    assert "You started this run" in explain_refusal(admin, approval)


def test_the_api_lists_attempts_and_starts_the_next(execution: Execution, client: APIClient) -> None:
    address = reverse("api-attempts", args=[execution.pk])
    document = client.get(address).json()
    assert [stage["obstacle"] for stage in document["stages"]] == [None, None, "Stage Test before it failed."]
    assert document["default_stage"] == "test"
    assert [attempt["attempt"] for attempt in document["attempts"]] == [1]

    response = client.post(address, {}, format="json")
    assert response.status_code == 201
    assert client.post(address, {}, format="json").json()["id"] == response.json()["id"]
    attempt = client.get(response.headers["Location"]).json()
    assert attempt["attempt"] == 2
    assert attempt["stages"][0]["reused_from"] == {"id": str(execution.pk), "number": execution.number}
    assert attempt["stages"][1]["reused_from"] is None
    former = client.get(reverse("api-execution", args=[execution.pk])).json()
    assert (former["can"]["attempt"], former["can"]["retry"]) == (False, False)
    attempts = client.get(address).json()["attempts"]
    assert [(row["attempt"], row["number"], row["started_by"]) for row in attempts] == [
        (1, execution.number, "admin"),
        (2, attempt["number"], "admin"),
    ]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"stage": "build"}, 201),
        ({"whole": True}, 201),
        ({"stage": "deploy"}, 409),
        ({"stage": "nowhere"}, 400),
        ({"stage": "build", "whole": True}, 400),
        ({"stage": 7, "whole": "x"}, 400),
        ({"step": "x"}, 400),
    ],
)
def test_the_api_validates_the_start(
    execution: Execution, client: APIClient, body: dict[str, object], status: int
) -> None:
    response = client.post(reverse("api-attempts", args=[execution.pk]), body, format="json")
    assert response.status_code == status, response.json()


@pytest.fixture
def browser(admin: User) -> Client:
    browser = Client()
    browser.force_login(admin)
    return browser


def test_the_page_offers_the_failed_stage_first_and_says_why_others_cannot_be_chosen(
    execution: Execution, browser: Client
) -> None:
    page = browser.get(reverse("retry-execution", args=[execution.pk])).content.decode()
    assert 'value="stage.test" checked' in page
    assert 'value="stage.deploy" disabled' in page
    assert "Not possible: Stage Test before it failed." in page
    assert "in this execution</label>" in page


@pytest.mark.parametrize("start", ["stage.test", "stage.build", "whole"])
def test_the_page_starts_the_attempt_and_opens_it(execution: Execution, browser: Client, start: str) -> None:
    response = browser.post(reverse("retry-execution", args=[execution.pk]), {"start": start})
    execution.refresh_from_db()
    assert response.headers["Location"] == reverse("execution", args=[execution.next_attempt_id])


def test_the_page_retries_the_failed_step_in_place(execution: Execution, browser: Client) -> None:
    response = browser.post(reverse("retry-execution", args=[execution.pk]), {"start": "step"})
    assert response.headers["Location"] == reverse("execution", args=[execution.pk])
    assert execution.interrupts.get().kind == "RETRY"


@pytest.mark.parametrize(
    ("start", "status", "text"),
    [
        ("stage.deploy", 409, "A retry cannot begin at stage Deploy."),
        ("stage.nowhere", 400, "This stage does not exist."),
        ("", 400, "Choose where the retry begins."),
    ],
)
def test_the_page_shows_a_refusal(
    execution: Execution, browser: Client, start: str, status: int, text: str
) -> None:
    response = browser.post(reverse("retry-execution", args=[execution.pk]), {"start": start})
    assert response.status_code == status
    assert text in response.content.decode()


def test_the_page_of_a_former_attempt_leads_to_the_last(
    execution: Execution, browser: Client, admin: User
) -> None:
    attempt = start_attempt(actor=admin, execution=execution)
    page = browser.get(reverse("retry-execution", args=[execution.pk])).content.decode()
    assert "A later attempt has started" in page
    assert f'href="{reverse("execution", args=[attempt.pk])}">Open attempt 2' in page


def test_the_header_lists_the_attempts_of_the_run(execution: Execution, browser: Client, admin: User) -> None:
    address = reverse("execution", args=[execution.pk])
    assert "Attempt 1 of" not in browser.get(address).content.decode()
    second = end(start_attempt(actor=admin, execution=execution), "SKIPPED", "FAILED", "SKIPPED")
    third = start_attempt(actor=admin, execution=second)
    page = browser.get(reverse("execution", args=[second.pk])).content.decode()
    assert "Attempt 2 of 3" in page
    for attempt in (execution, second, third):
        assert f'<a href="{reverse("execution", args=[attempt.pk])}"' in page
    assert f"Reused from execution {execution.number}" in page
    assert "data-x-attempt" in page
    listed = browser.get(reverse("executions")).content.decode()
    assert "attempt 2</span>" in listed
    assert "attempt 3</span>" in listed


def test_a_reused_stage_is_no_deployment_of_its_service(
    execution: Execution, world: World, browser: Client, client: APIClient, admin: User
) -> None:
    attempt = start_attempt(actor=admin, execution=execution)
    address = reverse("api-service-deployments", args=[world.service.pk])
    rows = [row for row in client.get(address).json()["results"] if row["execution"] == str(attempt.pk)]
    assert [(row["attempt"], row["status"]) for row in rows] == [(2, "QUEUED")] * 2
    end(attempt, "SKIPPED", "SUCCESS", "SUCCESS")
    third = start_attempt(actor=admin, execution=attempt, stage="deploy")
    third.stages.filter(identifier="deploy").delete()
    for name in ("services", "environments"):
        assert (
            f'href="{reverse("execution", args=[third.pk])}"'
            not in browser.get(reverse(name)).content.decode()
        )


def test_who_may_not_run_sees_no_retry_page(execution: Execution, project: Scope) -> None:
    viewer = make_person("viewer", "viewer", project)
    browser = Client()
    browser.force_login(viewer)
    assert browser.get(reverse("retry-execution", args=[execution.pk])).status_code == 403
