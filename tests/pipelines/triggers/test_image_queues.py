"""Queues of image triggers: each push starts a run once, and a message is deleted after its firing."""

import json
from typing import Any

import boto3
import pytest
from pytest_django import Settings

from catalog.models import Artifact
from connectors.models import Connector, EventQueue
from connectors.operations import create_event_queue
from deployments.models import Execution
from pipelines import tasks
from pipelines.models import Pipeline, Trigger, TriggerFiring, TriggerWatch
from pipelines.operations.pipelines import delete_pipeline
from pipelines.triggers import looks, operations
from pipelines.triggers.kinds.image import ImagePush
from pipelines.triggers.queue_looks import _read_message
from rbac.models import User
from sandbox.process import SandboxProcess
from tests.api.sample_project import World
from tests.fixtures.fake_delegates import hand
from web.clock import get_database_time
from web.http.problems import BadInput, Conflict

DIGEST = f"sha256:{'a' * 64}"
URL = "https://sqs.eu-central-1.amazonaws.com/123456789012/pushes"
SPEC = {"images": ["shop/*"], "tags": ["v*"], "connector": "aws", "queue": URL}


def push(tag: str = "v2", **detail: Any) -> str:
    """Return an event as EventBridge sends it.

    https://docs.aws.amazon.com/AmazonECR/latest/userguide/ecr-eventbridge.html
    """
    image = {"repository-name": "shop/web", "image-tag": tag, "image-digest": DIGEST}
    event = {
        "version": "0",
        "id": f"13cde686-328b-6117-af20-{tag:0>12}",
        "detail-type": "ECR Image Action",
        "source": "aws.ecr",
        "account": "123456789012",
        "time": "2026-11-26T12:00:00Z",
        "region": "us-east-1",
        "resources": [],
        "detail": image | {"result": "SUCCESS", "action-type": "PUSH"} | detail,
    }
    return json.dumps(event)


@pytest.mark.parametrize(
    "body", ["", "[]", "not json", "{}", '{"source": "aws.ec2"}', '{"source": "aws.ecr"}', "x" * 20_000]
)
def test_a_message_that_is_no_event_of_ecr_is_refused(body: str) -> None:
    with pytest.raises(BadInput):
        _read_message(body)


def test_a_push_is_the_same_event_as_that_of_an_api_destination() -> None:
    [event] = _read_message(push())
    assert event == ImagePush().read_events(SPEC, json.loads(push()), {})[0]
    assert _read_message(push(**{"action-type": "DELETE"})) == []


@pytest.mark.parametrize(
    ("spec", "path"),
    [({"queue": "https://example.com/x"}, "spec.queue"), ({"connector": ""}, "spec.connector")],
)
def test_a_queue_needs_its_url_and_a_connector(spec: dict[str, str], path: str) -> None:
    assert ImagePush().list_problems(SPEC) == []
    assert [problem["path"] for problem in ImagePush().list_problems(SPEC | spec)] == [path]


@pytest.fixture
def sqs(world: World, sandbox: SandboxProcess, settings: Settings) -> Any:
    """The client of SQS in the pretend account, which the connector of the world reaches too."""
    settings.ALLOW_AWS_ENDPOINTS = True
    sandbox.seed()
    spec = {
        "credentials": "AccessKey",
        "access_key_id": "AKIASANDBOX",
        "endpoint_url": sandbox.url,
        "test_region": "us-east-1",
    }
    Connector.objects.filter(identifier="aws").update(spec=spec)
    TriggerFiring.objects.all().delete()
    Artifact.objects.update(image="registry.example/shop/web")
    return boto3.client(
        "sqs",
        region_name="us-east-1",
        endpoint_url=sandbox.url,
        aws_access_key_id="AKIASANDBOX",
        aws_secret_access_key="any",
    )


def create_reader(world: World, queue: str, identifier: str = "pushes") -> Trigger:
    fields = operations.TriggerSpec(
        "Pushes", SPEC | {"queue": queue}, service_account=world.service_account, tag="<+trigger.tag>"
    )
    actor = User.objects.get(username="admin")
    return operations.create_trigger(
        actor=actor, pipeline=world.pipeline, identifier=identifier, kind="image", spec=fields
    )[0]


def add_event_queue(world: World, queue: str) -> EventQueue:
    return create_event_queue(
        actor=User.objects.get(username="admin"),
        connector=world.connector,
        queue_url=queue,
        region="eu-west-1",
    )


def test_a_queue_of_a_trigger_is_no_event_queue(world: World) -> None:
    trigger = create_reader(world, URL)
    with pytest.raises(Conflict, match="An image trigger reads this queue"):
        add_event_queue(world, URL)
    trigger.delete()
    assert add_event_queue(world, URL).queue_url == URL


def test_an_event_queue_is_no_queue_of_a_trigger(world: World) -> None:
    event_queue = add_event_queue(world, URL)
    with pytest.raises(Conflict, match="event queue of a connector"):
        create_reader(world, URL)
    event_queue.delete()
    assert create_reader(world, URL).watches.get().subject == URL


def test_a_deleted_pipeline_leaves_its_queue_to_others(world: World, admin: User) -> None:
    trigger = create_reader(world, URL)
    delete_pipeline(actor=admin, pipeline=world.pipeline)
    assert Pipeline.with_deleted.filter(pk=world.pipeline.pk).exists()
    assert not trigger.watches.exists()
    event_queue = add_event_queue(world, URL)
    event_queue.delete()
    # Rows that were left by deletions in earlier releases.
    settings = {"kind": TriggerWatch.Kind.QUEUE, "interval_seconds": 60, "due_at": get_database_time()}
    TriggerWatch.objects.create(trigger=trigger, subject=URL, **settings)
    assert add_event_queue(world, URL).queue_url == URL


def look_once() -> None:
    TriggerWatch.objects.update(due_at=get_database_time())
    for pk in looks.list_due_watches(get_database_time()):
        looks.look(pk, get_database_time())
    tasks.process_firings()


def count_messages(sqs: Any, queue: str) -> int:
    """Return the number of messages, those in flight too."""
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    values = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"]
    return sum(int(value) for value in values.values())


@pytest.mark.django_db
def test_a_push_in_the_queue_starts_its_run_and_poison_is_listed(world: World, sqs: Any) -> None:
    queue = sqs.create_queue(QueueName="pushes")["QueueUrl"]
    create_reader(world, queue)
    for body in (push("v2"), push("v2"), push("nightly"), "poison"):
        sqs.send_message(QueueUrl=queue, MessageBody=body)
    look_once()
    # The firings are stored, and the messages not deleted yet: a worker may die here.
    assert count_messages(sqs, queue) == 4
    run = Execution.objects.exclude(cause="").get()
    assert (run.tag, run.artifact["digest"]) == ("v2", DIGEST)
    firings = dict(TriggerFiring.objects.values_list("summary", "status"))
    assert sorted(firings.values()) == ["IGNORED", "REFUSED", "STARTED"]
    refused = TriggerFiring.objects.get(status="REFUSED")
    assert "not usable JSON" in refused.reason
    assert refused.payload == {"message": "poison"}
    look_once()
    assert count_messages(sqs, queue) == 0
    sqs.send_message(QueueUrl=queue, MessageBody=push("v2"))
    look_once()
    assert Execution.objects.exclude(cause="").count() == 1
    with pytest.raises(Conflict, match="queue of its own"):
        create_reader(world, queue, "other")


@pytest.mark.django_db
def test_a_queue_that_is_gone_is_a_fault_on_the_page(world: World, sqs: Any) -> None:
    queue = sqs.create_queue(QueueName="gone")["QueueUrl"]
    create_reader(world, queue)
    sqs.delete_queue(QueueUrl=queue)
    look_once()
    watch = TriggerWatch.objects.get()
    assert "does not exist" in watch.problem
    assert watch.looked_at is not None
    assert watch.due_at >= watch.looked_at + looks.FAULT_PAUSE


@pytest.mark.django_db(transaction=True)
def test_a_delegate_reads_the_queue_of_its_connector(
    world: World, sqs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "of-the-delegate")
    connector = Connector.objects.get(identifier="aws")
    connector.spec |= {"connect_through": "Delegate", "delegate_selectors": ["prod"]}
    connector.save()
    queue = sqs.create_queue(QueueName="behind")["QueueUrl"]
    create_reader(world, queue)
    sqs.send_message(QueueUrl=queue, MessageBody=push("v2"))
    delegate = hand("prod-eu", tags=("prod",))
    for _ in range(5):
        look_once()
        delegate.serve()
    assert TriggerWatch.objects.get().problem == ""
    assert Execution.objects.exclude(cause="").get().tag == "v2"
    assert delegate.taken_operations[:3] == ["ReceiveMessage", "DeleteMessageBatch", "ReceiveMessage"]
    assert count_messages(sqs, queue) == 0
