"""A worker creates the stack of an event queue once, follows it, and adds its queue."""

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.test import Client
from pytest_django import Settings

from aws.caller import Caller
from aws.errors import Invalid
from connectors.models import Connector, EventQueue, EventQueueSetup
from connectors.operations import (
    dismiss_event_queue_setup,
    event_queues,
    start_event_queue_setup,
    stop_event_queue_setup,
)
from connectors.operations.event_queue_setups import end_restored_setups
from delegates.access.aws_access import get_local_caller
from delegates.event_queues.readers import QueueReader
from delegates.event_queues.setups import PASS_DURATION, advance_setup
from rbac.models import AuditEntry, RoleAssignment, Scope, User
from sandbox.process import SandboxProcess
from tests.api.sample_project import make_world
from tests.delegates.event_queues.conftest import Worker, list_effects
from tests.fixtures.people import make_person
from tests.fixtures.worker_crashes import KILLED, run_in_fork
from web.clock import get_database_time
from web.http.problems import Conflict

pytestmark = pytest.mark.django_db
REGION, NAME = "us-east-1", "slipway-events-aws"
CREATION_SECONDS = 60


@pytest.fixture
def connector(project: Scope, admin: User, sandbox: SandboxProcess, settings: Settings) -> Connector:
    """A connector to the pretend account, without queues."""
    settings.ALLOW_AWS_ENDPOINTS = True
    connector = make_world(project, admin, admin).connector
    connector.spec = {
        "credentials": "AccessKey",
        "access_key_id": "AKIASANDBOX",
        "endpoint_url": sandbox.url,
        "test_region": REGION,
    }
    connector.save()
    EventQueue.objects.all().delete()
    EventQueueSetup.objects.all().delete()
    return connector


@pytest.fixture
def aws(connector: Connector) -> Caller:
    """Another client of the same account."""
    return get_local_caller(connector, REGION)


def start_service(aws: Caller, sandbox: SandboxProcess) -> None:
    """Create an ECS service, of which ECS sends events."""
    container = {"name": "web", "image": "myapp:1", "portMappings": [{"containerPort": 80}]}
    definition = {
        "family": "myapp",
        "requiresCompatibilities": ["FARGATE"],
        "networkMode": "awsvpc",
        "cpu": "256",
        "memory": "512",
        "containerDefinitions": [container],
    }
    arn = aws.call("ecs", "RegisterTaskDefinition", definition)["taskDefinition"]["taskDefinitionArn"]
    network = {"awsvpcConfiguration": {"subnets": sandbox.seed()["subnets"][:1]}}
    service = {"cluster": "demo", "serviceName": "myapp", "taskDefinition": arn, "desiredCount": 1}
    aws.call("ecs", "CreateService", service | {"launchType": "FARGATE", "networkConfiguration": network})


def test_a_click_ends_with_a_queue_that_receives_events(
    connector: Connector, worker: Worker, admin: User, client: Client, sandbox: SandboxProcess, aws: Caller
) -> None:
    mark = sandbox.last_number()
    client.force_login(admin)
    page = f"/connectors/{connector.pk}/"
    form = client.get(f"{page}event-queues/set-up/").content.decode()
    for text in ("AWS::SQS::Queue", "AWS::Events::Rule", "sqs:CreateQueue", "cloudformation:CreateStack"):
        assert text in form
    values = {"region": REGION, "stack_name": NAME}
    assert client.post(f"{page}event-queues/set-up/", values).status_code == 400
    posted = client.post(f"{page}event-queues/set-up/", values | {"confirmed": "on"})
    assert (posted.status_code, posted["Location"]) == (302, page)
    assert "Setting up events in us-east-1" in client.get(page).content.decode()

    setup = worker.follow(EventQueueSetup.objects.get())
    assert (setup.status, setup.message, setup.account) == ("SUCCEEDED", "", "123456789012")
    assert list_effects(sandbox, mark) == ["CreateStack"]
    queue = EventQueue.objects.get()
    assert queue.queue_url.endswith(f"/{NAME}")
    entries = AuditEntry.objects.filter(action__startswith="eventqueue").order_by("pk")
    assert list(entries.values_list("action", "actor_name")) == [
        ("eventqueuesetup.create", "admin"),
        ("eventqueue.create", "admin"),
    ]
    assert queue.queue_url in client.get(page).content.decode()

    start_service(aws, sandbox)
    sandbox.advance(30)
    reader = QueueReader(queue.pk, "one")
    assert reader.claim()
    assert reader.read(wait_seconds=0)
    queue.refresh_from_db()
    assert queue.get_state(get_database_time()) == EventQueue.State.RECEIVING


def test_a_refusal_without_a_known_remedy_shows_the_reason_of_aws(
    connector: Connector, worker: Worker, admin: User
) -> None:
    class Full:
        """A caller to an account that may not have another stack."""

        def __init__(self, caller: Caller) -> None:
            self.caller = caller

        def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
            if operation == "CreateStack":
                raise Invalid(
                    "LimitExceededException", "Limit for stack has been exceeded", service, operation
                )
            return self.caller.call(service, operation, params)

    setup = start_event_queue_setup(actor=admin, connector=connector)
    worker.now += timedelta(seconds=1)
    assert advance_setup(setup.pk, worker.now, get_caller=lambda *place: Full(get_local_caller(*place)))
    setup.refresh_from_db()
    assert setup.message == (
        "AWS refused cloudformation CreateStack: Limit for stack has been exceeded (LimitExceededException). "
        "Set up events again after the cause is gone."
    )


def test_a_pass_that_reaches_its_time_limit_is_made_again(
    connector: Connector, admin: User, worker: Worker
) -> None:
    def hang(connector: Connector, region: str) -> Caller:
        raise SoftTimeLimitExceeded

    setup = start_event_queue_setup(actor=admin, connector=connector)
    worker.now += timedelta(seconds=1)
    with pytest.raises(SoftTimeLimitExceeded):
        advance_setup(setup.pk, worker.now, get_caller=hang)
    setup.refresh_from_db()
    assert setup.status == "RUNNING"
    worker.now += PASS_DURATION
    assert worker.follow(setup).status == "SUCCEEDED"


def test_two_workers_create_one_stack(
    connector: Connector, worker: Worker, admin: User, sandbox: SandboxProcess
) -> None:
    setup, mark = start_event_queue_setup(actor=admin, connector=connector), sandbox.last_number()
    rival: list[bool] = []

    class Interleaved:
        """A caller beside which another worker runs a pass before each call."""

        def __init__(self, caller: Caller) -> None:
            self.caller = caller

        def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
            rival.append(advance_setup(setup.pk, worker.now))
            return self.caller.call(service, operation, params)

    worker.now += timedelta(seconds=1)
    assert advance_setup(
        setup.pk, worker.now, get_caller=lambda *place: Interleaved(get_local_caller(*place))
    )
    assert rival == [False] * 3
    # A worker whose claim has run out changes nothing any more, also if it comes back late.
    EventQueueSetup.objects.update(due_at=worker.now, stack_id="")
    assert advance_setup(setup.pk, worker.now)
    assert worker.follow(setup).status == "SUCCEEDED"
    assert list_effects(sandbox, mark) == ["CreateStack"]


def test_a_stack_of_somebody_else_stays_and_another_name_goes_on(
    connector: Connector, worker: Worker, admin: User, aws: Caller, sandbox: SandboxProcess
) -> None:
    template = "Resources: {Only: {Type: AWS::CloudFormation::WaitConditionHandle}}"
    tags = [{"Key": "slipway:event-queue-setup", "Value": "5b0b2c1e-8d0b-4b52-9ac5-1d6e0bb3a111"}]
    aws.call("cloudformation", "CreateStack", {"StackName": NAME, "TemplateBody": template, "Tags": tags})
    sandbox.advance(CREATION_SECONDS)
    mark = sandbox.last_number()
    setup = worker.follow(start_event_queue_setup(actor=admin, connector=connector))
    assert setup.status == "FAILED"
    assert setup.message.startswith(
        f"A stack {NAME} exists in us-east-1, which Slipway did not create for this connector."
    )
    assert list_effects(sandbox, mark) == []
    again = start_event_queue_setup(actor=admin, connector=connector, stack_name="other")
    assert worker.follow(again).status == "SUCCEEDED"
    setup.refresh_from_db()
    assert setup.dismissed_at


def test_a_failure_shows_the_first_failed_event_and_leaves_nothing(
    connector: Connector, worker: Worker, admin: User, aws: Caller, sandbox: SandboxProcess, client: Client
) -> None:
    aws.call("sqs", "CreateQueue", {"QueueName": f"{NAME}-dead"})
    setup = worker.follow(start_event_queue_setup(actor=admin, connector=connector))
    assert setup.message == (
        f"DeadLetters (AWS::SQS::Queue) could not be created: {NAME}-dead already exists in stack. "
        "Use another stack name, or delete what has this name. Then set up events again."
    )
    client.force_login(admin)
    page = client.get(f"/connectors/{connector.pk}/").content.decode()
    assert "Events could not be set up in us-east-1" in page
    assert "already exists in stack" in page
    (url,) = aws.call("sqs", "ListQueues", {})["QueueUrls"]
    aws.call("sqs", "DeleteQueue", {"QueueUrl": url})
    # What failed is gone, so the same name is free.
    assert worker.follow(start_event_queue_setup(actor=admin, connector=connector)).status == "SUCCEEDED"
    with pytest.raises(Conflict, match="Only a set-up that failed or was stopped"):
        dismiss_event_queue_setup(actor=admin, setup=setup)


def test_a_set_up_has_the_rights_of_its_user_and_ends_with_a_restore(
    connector: Connector, worker: Worker, admin: User, project: Scope, sandbox: SandboxProcess
) -> None:
    editor, mark = make_person("editor", "project_admin", project), sandbox.last_number()
    setup = start_event_queue_setup(actor=editor, connector=connector)
    with pytest.raises(Conflict, match="being set up in us-east-1 already"):
        start_event_queue_setup(actor=admin, connector=connector)
    RoleAssignment.objects.filter(user=editor).delete()
    worker.follow(setup)
    assert setup.message.startswith("The user editor may not edit and use the connector any more.")
    second = start_event_queue_setup(actor=admin, connector=connector)
    assert end_restored_setups(worker.now) == 1
    assert not advance_setup(second.pk, worker.now)
    second.refresh_from_db()
    assert second.message.startswith("The database was restored")
    EventQueue.objects.create(connector=connector, region=REGION, queue_url="http://127.0.0.1/123456789012/a")
    with pytest.raises(Conflict, match="has an event queue in us-east-1"):
        start_event_queue_setup(actor=admin, connector=connector)
    assert list_effects(sandbox, mark) == []


def test_a_queue_that_a_trigger_reads_is_refused_and_the_stack_is_used_later(
    connector: Connector,
    worker: Worker,
    admin: User,
    sandbox: SandboxProcess,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mark = sandbox.last_number()
    monkeypatch.setattr(event_queues, "_reader_finders", [lambda url: "The trigger push"])
    setup = worker.follow(start_event_queue_setup(actor=admin, connector=connector))
    assert setup.message.startswith("The trigger push reads this queue")
    assert setup.message.endswith(
        f"Then set up events again: the stack {NAME} stays in CloudFormation, and is used."
    )
    assert not EventQueue.objects.exists()
    monkeypatch.setattr(event_queues, "_reader_finders", [])
    again = worker.follow(start_event_queue_setup(actor=admin, connector=connector))
    assert (again.status, again.stack_id) == ("SUCCEEDED", setup.stack_id)
    assert list_effects(sandbox, mark) == ["CreateStack"]


def test_a_stopped_set_up_names_what_stays_and_a_later_one_goes_on_with_it(
    connector: Connector, worker: Worker, admin: User, sandbox: SandboxProcess, client: Client
) -> None:
    mark = sandbox.last_number()
    client.force_login(admin)
    page = f"/connectors/{connector.pk}/"
    setup = start_event_queue_setup(actor=admin, connector=connector)
    worker.advance(1)
    stop = f"/event-queue-setups/{setup.pk}/stop/"
    assert stop in client.get(page).content.decode()
    assert "A stack that exists stays in CloudFormation" in client.get(stop).content.decode()
    assert client.post(stop)["Location"] == page
    for _ in range(12):
        worker.advance(10)
    setup.refresh_from_db()
    assert setup.status == "STOPPED"
    assert setup.message == (
        f"Stopped by admin. The stack {NAME} stays in CloudFormation. Set up events again to continue with "
        "it, or delete it there."
    )
    shown = client.get(page).content.decode()
    assert "The set-up of events in us-east-1 was stopped" in shown
    assert stop not in shown
    assert not EventQueue.objects.exists()
    with pytest.raises(Conflict, match="has ended already"):
        stop_event_queue_setup(actor=admin, setup=setup)
    assert AuditEntry.objects.filter(action="eventqueuesetup.stop").count() == 1
    again = worker.follow(start_event_queue_setup(actor=admin, connector=connector))
    setup.refresh_from_db()
    assert setup.dismissed_at
    assert (again.status, again.stack_id) == ("SUCCEEDED", setup.stack_id)
    assert list_effects(sandbox, mark) == ["CreateStack"]


def test_a_worker_in_the_middle_of_a_pass_creates_nothing_for_a_stopped_set_up(
    connector: Connector, worker: Worker, admin: User, sandbox: SandboxProcess
) -> None:
    mark = sandbox.last_number()
    setup = start_event_queue_setup(actor=admin, connector=connector)

    def get_caller(connector: Connector, region: str) -> Caller:
        stop_event_queue_setup(actor=admin, setup=setup)
        return get_local_caller(connector, region)

    worker.now += timedelta(seconds=1)
    assert advance_setup(setup.pk, worker.now, get_caller=get_caller)
    worker.advance(120)
    assert list_effects(sandbox, mark) == []
    setup.refresh_from_db()
    assert setup.status == "STOPPED"
    assert "a call under way may create it: look in CloudFormation in us-east-1" in setup.message


def test_a_queue_of_another_connector_is_refused_with_the_way_out(
    connector: Connector, worker: Worker, admin: User
) -> None:
    setup = start_event_queue_setup(actor=admin, connector=connector)
    worker.advance(1)
    setup.refresh_from_db()
    url = f"http://localhost/123456789012/{NAME}"
    other = Connector.objects.create(
        scope=connector.scope, identifier="other", name="other", kind=connector.kind, spec=connector.spec
    )
    EventQueue.objects.create(connector=other, region=REGION, queue_url=url)
    assert "Another event queue of Slipway has this URL" in worker.follow(setup).message


def test_a_denied_call_names_the_missing_permission_and_a_throttled_one_is_repeated(
    connector: Connector, worker: Worker, admin: User, sandbox: SandboxProcess
) -> None:
    sandbox.fault("denied", service="cloudformation", operation="CreateStack", count=1)
    setup = worker.follow(start_event_queue_setup(actor=admin, connector=connector))
    assert "Allow cloudformation:CreateStack to" in setup.message
    assert setup.message.casefold().count("allow ") == 1, "the remedy stands there once"
    assert setup.message.endswith("Then set up events again.")
    sandbox.fault("throttle", service="cloudformation", operation="CreateStack", count=1)
    setup = worker.follow(start_event_queue_setup(actor=admin, connector=connector))
    assert setup.status == "SUCCEEDED"


@pytest.mark.django_db(transaction=True)
def test_a_worker_killed_before_the_commit_of_the_queue_leaves_one_queue(
    connector: Connector,
    worker: Worker,
    admin: User,
    sandbox: SandboxProcess,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setup, mark = start_event_queue_setup(actor=admin, connector=connector), sandbox.last_number()
    worker.advance(1)
    sandbox.advance(CREATION_SECONDS)
    worker.now += timedelta(seconds=CREATION_SECONDS)
    with monkeypatch.context() as patched:
        # It is asked between the end of the set-up and the row of the queue.
        patched.setattr(event_queues, "_reader_finders", [lambda url: os._exit(KILLED)])
        assert run_in_fork(lambda: advance_setup(setup.pk, worker.now) and None) == KILLED
    assert not EventQueue.objects.exists()
    setup.refresh_from_db()
    assert setup.is_running
    worker.now += PASS_DURATION
    worker.advance()
    setup.refresh_from_db()
    assert (setup.status, EventQueue.objects.count()) == ("SUCCEEDED", 1)
    assert list_effects(sandbox, mark) == ["CreateStack"]


def test_a_lost_answer_of_the_creation_is_found_by_the_tag(
    connector: Connector, worker: Worker, admin: User, sandbox: SandboxProcess
) -> None:
    setup, mark = start_event_queue_setup(actor=admin, connector=connector), sandbox.last_number()
    sandbox.fault("lost_answer", service="cloudformation", operation="CreateStack", count=1, **{"as": "cut"})
    worker.advance(1)
    setup.refresh_from_db()
    assert (setup.stack_id, setup.message.endswith("Slipway tries again.")) == ("", True)
    assert worker.follow(setup).status == "SUCCEEDED"
    assert list_effects(sandbox, mark) == ["CreateStack"]


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.django_db(transaction=True)
def test_a_worker_killed_around_the_creation_leaves_one_stack(
    connector: Connector, worker: Worker, admin: User, sandbox: SandboxProcess, moment: str
) -> None:
    setup, mark = start_event_queue_setup(actor=admin, connector=connector), sandbox.last_number()

    class Mortal:
        """A caller whose process ends around CreateStack."""

        def __init__(self, caller: Caller) -> None:
            self.caller = caller

        def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
            is_last = operation == "CreateStack"
            answer = self.caller.call(service, operation, params) if moment == "after" or not is_last else {}
            if is_last:
                os._exit(KILLED)
            return answer

    def run() -> None:
        advance_setup(setup.pk, worker.now, get_caller=lambda *place: Mortal(get_local_caller(*place)))

    worker.now += timedelta(seconds=1)
    assert run_in_fork(run) == KILLED
    assert list_effects(sandbox, mark) == ["CreateStack"] * (moment == "after")
    worker.now += PASS_DURATION
    setup = worker.follow(setup)
    assert (setup.status, EventQueue.objects.count()) == ("SUCCEEDED", 1)
    assert list_effects(sandbox, mark) == ["CreateStack"]
