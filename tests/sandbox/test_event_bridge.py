"""ECS tells EventBridge, whose rules fill queues, as AWS does."""

import json
import time
from threading import Thread
from typing import Any

import pytest

from connectors.event_queue_template import STACK_FILE
from tests.contract.endpoint import Aws

PATTERN = {"source": ["aws.ecs"], "detail-type": ["ECS Deployment State Change", "ECS Task State Change"]}


@pytest.fixture
def queue(aws: Aws) -> str:
    """The URL of a queue that gets the events of a rule."""
    url = str(aws.client("sqs").create_queue(QueueName="events")["QueueUrl"])
    attributes = aws.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    events = aws.client("events")
    events.put_rule(Name="ecs", EventPattern=json.dumps(PATTERN))
    target = {"Id": "queue", "Arn": attributes["Attributes"]["QueueArn"]}
    events.put_targets(Rule="ecs", Targets=[target])
    return url


def receive(aws: Aws, queue: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    while (
        messages := aws.client("sqs").receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages")
    ):
        events += [json.loads(message["Body"]) for message in messages]
    return events


def test_a_rollout_sends_the_changes_of_its_deployment_and_tasks(aws: Aws, queue: str) -> None:
    service = aws.create()
    aws.sandbox.advance(120)
    events = receive(aws, queue)
    deployments = [event for event in events if event["detail-type"] == PATTERN["detail-type"][0]]
    states = {event["detail"]["eventName"]: event for event in deployments}
    assert set(states) == {"SERVICE_DEPLOYMENT_IN_PROGRESS", "SERVICE_DEPLOYMENT_COMPLETED"}
    completed = states["SERVICE_DEPLOYMENT_COMPLETED"]
    assert (completed["source"], completed["resources"]) == ("aws.ecs", [service["serviceArn"]])
    assert completed["account"] == service["serviceArn"].split(":")[4]
    assert completed["detail"]["deploymentId"] == service["deployments"][0]["id"]
    tasks = [event["detail"] for event in events if event["detail-type"] == PATTERN["detail-type"][1]]
    assert {task["group"] for task in tasks} == {f"service:{service['serviceName']}"}
    versions = [task["version"] for task in tasks]
    assert len(set(versions)) == len(versions) > 1
    assert max(tasks, key=lambda task: task["version"])["lastStatus"] == "RUNNING"


def test_a_target_that_is_gone_loses_its_events_and_holds_up_nothing(aws: Aws, queue: str) -> None:
    other = str(aws.client("sqs").create_queue(QueueName="other")["QueueUrl"])
    arn = aws.client("sqs").get_queue_attributes(QueueUrl=other, AttributeNames=["QueueArn"])
    target = {"Id": "other", "Arn": arn["Attributes"]["QueueArn"]}
    aws.client("events").put_targets(Rule="ecs", Targets=[target])
    aws.client("sqs").delete_queue(QueueUrl=queue)
    service = aws.create()
    aws.sandbox.advance(120)
    assert aws.service(service["serviceName"])["deployments"][0]["rolloutState"] == "COMPLETED"
    assert receive(aws, other)


def test_a_long_poll_ends_with_its_message_and_holds_up_nobody(aws: Aws, queue: str) -> None:
    received: list[Any] = []
    waiting = Thread(
        target=lambda: received.append(aws.client("sqs").receive_message(QueueUrl=queue, WaitTimeSeconds=20))
    )
    started = time.monotonic()
    waiting.start()
    aws.client("ecs").list_clusters()
    aws.client("sqs").send_message(QueueUrl=queue, MessageBody="here")
    waiting.join(timeout=15)
    assert time.monotonic() - started < 10
    assert received[0]["Messages"][0]["Body"] == "here"


def test_the_template_of_an_event_queue_makes_a_queue_that_receives_events(aws: Aws) -> None:
    stacks = aws.client("cloudformation")
    stacks.create_stack(StackName="events", TemplateBody=STACK_FILE.read_text())
    aws.sandbox.advance(60)
    (stack,) = stacks.describe_stacks(StackName="events")["Stacks"]
    assert stack["StackStatus"] == "CREATE_COMPLETE", stacks.describe_stack_events(StackName="events")
    (output,) = stack["Outputs"]
    url = output["OutputValue"]
    attributes = aws.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert attributes["VisibilityTimeout"] == "30"
    assert json.loads(attributes["RedrivePolicy"])["deadLetterTargetArn"].endswith(":slipway-events-dead")
    (statement,) = json.loads(attributes["Policy"])["Statement"]
    rules = [arn.partition(":rule/")[2] for arn in statement["Condition"]["ArnEquals"]["aws:SourceArn"]]
    assert [name.rpartition("-")[0] for name in rules] == [
        "events-EcsEvents",
        "events-EcrPushes",
        "events-Alarms",
    ]
    aws.create()
    aws.sandbox.advance(120)
    assert {"ECS Task State Change", "ECS Deployment State Change"} <= {
        event["detail-type"] for event in receive(aws, url)
    }
    stacks.delete_stack(StackName="events")
    aws.sandbox.advance(60)
    assert aws.client("sqs").list_queues().get("QueueUrls", []) == []
    assert aws.client("events").list_rules()["Rules"] == []
