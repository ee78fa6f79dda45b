"""What two processes do in the same moment: each thread here has a database connection of its own."""

from collections import Counter

import pytest
from rest_framework.test import APIClient

from deployments.engine.dispatch import claim_due_batches
from deployments.engine.lease import LEASE_DURATION, claim_lease
from deployments.execution.operations import abort_execution, retry_execution, start_attempt
from deployments.journal.runtime import set_hook
from deployments.models import AwsCall, Execution, Interrupt, ServiceLock
from pipelines.models import Pipeline
from rbac.archive_guards import ScopeBusy
from rbac.models import AuditEntry, Scope, User
from rbac.operations import archive_scope
from rbac.operations.api_keys import create_api_key
from tests.fixtures.engine_driver import Drive
from tests.fixtures.threads import run_concurrently, split
from tests.secret_watch.marker import planted
from web.http.problems import Conflict

pytestmark = pytest.mark.django_db(transaction=True)

MANY = 6
ROLE = "arn:aws:iam::123456789012:role/deployer"


def test_each_due_execution_is_claimed_by_one_dispatcher(drive: Drive) -> None:
    started_ids = {drive.start("1.27").pk for _ in range(MANY)}

    batches, errors = split(run_concurrently(*[lambda: claim_due_batches(drive.runtime)] * 4))

    assert errors == []
    claimed_ids = [pk for groups in batches for group in groups for pk in group.execution_ids]
    assert sorted(claimed_ids) == sorted(started_ids)


def test_one_of_many_workers_gets_the_lease(drive: Drive) -> None:
    execution = drive.start("1.27")

    def claim(owner: str) -> object:
        return claim_lease(execution.pk, owner=owner, runtime=drive.runtime)

    for attempt in range(3):
        leases, errors = split(run_concurrently(*[lambda n=n: claim(f"worker {n}") for n in range(MANY)]))
        assert errors == []
        assert len([lease for lease in leases if lease]) == 1
        execution.refresh_from_db()
        assert execution.fence == attempt + 1
        drive.clock.move(LEASE_DURATION.total_seconds() + 1)


def test_numbers_of_runs_started_together_have_neither_gaps_nor_doubles(drive: Drive) -> None:
    executions, errors = split(run_concurrently(*[lambda: drive.start("1.27")] * MANY))

    assert errors == []
    assert sorted(execution.number for execution in executions) == list(range(1, MANY + 1))
    drive.pipeline.refresh_from_db()
    assert drive.pipeline.next_number == MANY + 1


def test_a_project_is_archived_or_run_in_and_never_both(drive: Drive) -> None:
    scope = drive.pipeline.scope

    def archive() -> object:
        return archive_scope(actor=None, scope=Scope.objects.get(pk=scope.pk))

    for _ in range(MANY):
        results, errors = split(run_concurrently(lambda: drive.start("1.27"), archive))
        assert len(results) == len(errors) == 1
        # Who runs is refused by whichever question was asked last.
        assert isinstance(errors[0], ScopeBusy) == isinstance(results[0], Execution)
        Execution.objects.update(status="SUCCESS", due_at=None)
        Scope.objects.filter(pk=scope.pk).update(archived_at=None)


def test_retries_in_the_same_moment_start_one_attempt(drive: Drive) -> None:
    execution = drive.start("1.27")
    execution.stages.update(status="FAILED")
    Execution.objects.update(status="FAILED", due_at=None)

    def retry(whole: bool) -> Execution:
        former = Execution.objects.get(pk=execution.pk)
        return start_attempt(actor=drive.deployer, execution=former, whole=whole)

    calls = [lambda: retry(False), lambda: retry(True)] * (MANY // 2)
    attempts, errors = split(run_concurrently(*calls))

    assert len({attempt.pk for attempt in attempts}) == 1
    assert (len(attempts), {type(error) for error in errors}) == (MANY // 2, {Conflict})
    assert Execution.objects.filter(first_attempt=execution.pk).count() == 1


def test_an_execution_is_retried_in_place_or_by_an_attempt_and_never_both(drive: Drive) -> None:
    for _ in range(MANY):
        execution = drive.start("1.27")
        execution.stages.update(status="FAILED")
        Execution.objects.update(status="FAILED", due_at=None)
        retries = [
            lambda retry=retry, former=execution: retry(actor=drive.deployer, execution=former)
            for retry in (start_attempt, retry_execution)
        ]
        results, errors = split(run_concurrently(*retries))
        assert [type(error) for error in errors] == [Conflict]
        assert len(results) == 1
        execution.refresh_from_db()
        assert (execution.next_attempt is None) == execution.interrupts.exists()


def test_the_same_key_at_two_web_servers_makes_one_run(drive: Drive) -> None:
    _, token = create_api_key(actor=drive.deployer, user=drive.deployer, name="a program")
    path = f"/api/v1/pipelines/{drive.pipeline.pk}/executions"

    def ask() -> tuple[int, str]:
        client = APIClient(raise_request_exception=False)
        client.credentials(HTTP_X_API_KEY=token)
        response = client.post(
            path, {"artifact": {"tag": "1.27"}}, format="json", HTTP_IDEMPOTENCY_KEY="once"
        )
        return response.status_code, response.json().get("id", response.json())

    responses, errors = split(run_concurrently(*[ask] * MANY))

    assert errors == []
    assert len(set(responses)) == 1, responses
    assert responses[0][0] == 201
    assert Execution.objects.count() == 1
    assert AuditEntry.objects.filter(action="pipeline.execute").count() == 1


def test_the_same_key_does_not_use_up_numbers(drive: Drive) -> None:
    run_concurrently(*[lambda: drive.start("1.27", idempotency_key="once")] * MANY)

    assert drive.start("1.27").number == 2


def test_two_people_who_abort_at_once_are_heard_once(drive: Drive) -> None:
    execution = drive.start("1.27")

    def abort() -> None:
        abort_execution(actor=drive.deployer, execution=Execution.objects.get(pk=execution.pk))

    results, errors = split(run_concurrently(*[abort] * MANY))

    assert len(results) == 1
    assert {type(error) for error in errors} == {Conflict}
    assert Interrupt.objects.filter(execution=execution).count() == 1
    drive.until_over(execution)
    assert execution.status == "ABORTED"


@pytest.mark.parametrize("failpoint", ["lease.claimed", "commit.before", "commit.after", "call.sent"])
def test_an_abort_while_a_worker_looks_is_taken_up_by_that_look_or_the_next(
    drive: Drive, failpoint: str
) -> None:
    drive.run("1.27")
    execution = drive.start("1.28")
    requests: list[object] = []

    def passed(name: str) -> None:
        if name == failpoint and not requests:
            requests.append(True)
            requests[:] = run_concurrently(lambda: abort_execution(actor=drive.deployer, execution=execution))

    set_hook(passed)
    try:
        drive.reconcile()
        assert requests == [None]
        drive.until_over(execution, most_seconds=60)
    finally:
        set_hook(None)

    assert execution.status == "ABORTED"
    assert Interrupt.objects.get(execution=execution).result == "Aborted."


def test_workers_side_by_side_write_one_after_the_other_to_one_service(drive: Drive) -> None:
    drive.run("1.27")
    mark = drive.mark()
    executions = [drive.start(f"1.{28 + number}") for number in range(3)]

    for _ in range(600):
        _, errors = split(run_concurrently(*[drive.reconcile] * 3))
        assert errors == []
        assert ServiceLock.objects.count() <= 1
        if not Execution.objects.filter(ended_at=None).exists():
            break
        drive.clock.move(2)
        drive.sandbox.advance(2)

    for execution in executions:
        execution.refresh_from_db()
        assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED")
    writes = Counter(drive.effects(after=mark))
    assert (writes["RegisterTaskDefinition"], writes["UpdateService"]) == (3, 3)
    assert not ServiceLock.objects.exists()
    _assert_no_overlap(executions)


def _assert_no_overlap(executions: list[Execution]) -> None:
    sent_calls = AwsCall.objects.filter(execution__in=executions, operation="UpdateService").order_by(
        "sent_at"
    )
    rows = [(call.sent_at, call.execution.ended_at) for call in sent_calls.select_related("execution")]
    for (_, ended_at), (started_at, _) in zip(rows, rows[1:], strict=False):
        assert started_at is not None
        assert ended_at is not None
        assert started_at >= ended_at


def test_of_two_who_save_the_same_version_one_is_told(drive: Drive, admin_key: str) -> None:
    path = f"/api/v1/pipelines/{drive.pipeline.pk}"
    yaml = Pipeline.objects.get(pk=drive.pipeline.pk).yaml

    def save(name: str) -> int:
        client = APIClient(raise_request_exception=False)
        client.credentials(HTTP_X_API_KEY=admin_key)
        body = {"yaml": yaml.replace("name: Rolling demo", f"name: {name}")}
        response = client.put(path, body, format="json", HTTP_IF_MATCH=f'"{drive.pipeline.version}"')
        return response.status_code

    status_codes, errors = split(run_concurrently(*[lambda n=n: save(f"Demo {n}") for n in range(MANY)]))

    assert errors == []
    assert Counter(status_codes) == {200: 1, 412: MANY - 1}


@pytest.mark.parametrize("resource", ["services", "environments", "pipelines", "secrets", "connectors"])
def test_of_two_who_take_the_same_identifier_one_is_told(drive: Drive, admin_key: str, resource: str) -> None:
    fields = {"identifier": "twice", "name": "Twice", "org": "default", "project": "demo"}
    pipeline = drive.pipeline.yaml.replace("rolling_demo", "twice")
    bodies = {
        "services": fields,
        "environments": fields | {"kind": "PreProduction"},
        "pipelines": {"yaml": pipeline, "org": "default", "project": "demo"},
        "secrets": fields | {"value": planted("a value")},
        "connectors": fields | {"kind": "Aws", "spec": {"credentials": "AssumeRole", "role_arn": ROLE}},
    }

    def create_resource() -> tuple[int, object]:
        client = APIClient(raise_request_exception=False)
        client.credentials(HTTP_X_API_KEY=admin_key)
        response = client.post(f"/api/v1/{resource}", bodies[resource], format="json")
        return response.status_code, response.json()

    responses, errors = split(run_concurrently(*[create_resource] * 3))

    assert errors == []
    statuses = Counter(status for status, _ in responses)
    assert statuses[201] == 1, responses
    assert statuses[400] + statuses[409] == 2, responses


@pytest.fixture
def admin_key(drive: Drive) -> str:
    """What a program of the admin signs in with."""
    admin = User.objects.get(username="admin")
    return create_api_key(actor=admin, user=admin, name="a program of the admin")[1]
