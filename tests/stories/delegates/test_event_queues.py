"""A delegate reads the events of AWS: a rollout ends by them, also after the delegate was killed."""

import json
from datetime import timedelta

import pytest
from pytest_django import Settings

from connectors.models import Connector, EventQueue
from delegates.models import get_account_id
from delegates.operations.tokens import create_token
from deployments.execution.operations import run_pipeline
from deployments.journal import rate_limits
from deployments.models import AwsCall, Execution
from ops.demo.pipelines import SandboxFacts
from pipelines.models import Pipeline
from rbac.models import Scope, User
from sandbox.process import SandboxProcess
from tests.contract.endpoint import client
from tests.fixtures.agents import Api, Manager, StartAgent
from tests.fixtures.demo import fill_in_demo
from tests.fixtures.processes import wait_until
from web.clock import get_database_time

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(400)]
QUICK, ORDINARY = 60.0, 1.5
# A queue without a read counts for 25 s; a worker looks every two, and this machine is not alone.
TAKEOVER_SECONDS = 30.0


@pytest.fixture
def pipeline(
    live_broker: str, manager: Manager, pretend_aws: SandboxProcess, settings: Settings, admin: User
) -> Pipeline:
    """The pipeline of the demo, whose connector connects through delegates."""
    rate_limits.reset_buckets()
    pretend_aws.reset()
    settings.SANDBOX_URL, settings.PUBLIC_URL = pretend_aws.url, manager.url
    fill_in_demo(SandboxFacts.from_wire(pretend_aws.seed()))
    connector = Connector.objects.get(identifier="sandbox_aws")
    connector.spec |= {"connect_through": "Delegate", "delegate_selectors": ["vpc"]}
    connector.save()
    return Pipeline.objects.get(identifier="rolling_demo")


def run(pipeline: Pipeline, tag: str) -> Execution:
    return run_pipeline(actor=User.objects.get(username="deployer"), pipeline=pipeline, artifact_tag=tag)


def wait_for_success(execution: Execution, seconds: float) -> None:
    def is_over() -> bool:
        execution.refresh_from_db()
        return execution.is_over

    wait_until(is_over, "the end of the execution", seconds)
    assert execution.status == "SUCCESS", execution.failure


def create_queue(api: Api, aws: SandboxProcess) -> EventQueue:
    """Create a queue with the events of ECS, and add it to the connector by the API."""
    sqs, events = client(aws.url, "sqs"), client(aws.url, "events")
    url = sqs.create_queue(QueueName="slipway-events")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    events.put_rule(Name="ecs", EventPattern=json.dumps({"source": ["aws.ecs"]}))
    events.put_targets(Rule="ecs", Targets=[{"Id": "slipway", "Arn": arn}])
    connector = Connector.objects.get(identifier="sandbox_aws")
    body = {"connector": connector.pk, "queue_url": url, "region": "us-east-1"}
    return EventQueue.objects.get(pk=api("POST", "event-queues", body)["id"])


def wait_for_state(queue: EventQueue, *states: str, seconds: float = 60) -> None:
    def is_reached() -> bool:
        queue.refresh_from_db()
        return queue.get_state(get_database_time()) in states

    wait_until(is_reached, f"the state {states}", seconds)


def count_reads(execution: Execution) -> int:
    """Return how often the service was described while the execution waited for it."""
    calls = AwsCall.objects.filter(execution=execution, operation="DescribeServices")
    return sum(call.repeat_count + 1 for call in calls)


def test_a_rollout_ends_by_an_event_that_a_delegate_read_and_by_polling_without_it(
    api: Api, pretend_aws: SandboxProcess, pipeline: Pipeline, start_agent: StartAgent, admin: User
) -> None:
    token = create_token(actor=admin, scope=Scope.objects.account(), name="stories").value
    agent = start_agent(
        {
            "HARNESS_ACCOUNT_ID": get_account_id(),
            "HARNESS_TOKEN": token,
            "HARNESS_URL": api.url,
            "HARNESS_NAME": "near",
            "HARNESS_TAGS": "vpc",
            "AWS_ACCESS_KEY_ID": "AKIASANDBOX",
            "AWS_SECRET_ACCESS_KEY": "example",
        }
    )
    api.until("near", "CONNECTED")
    wait_for_success(run(pipeline, "1.26"), 150)
    queue = create_queue(api, pretend_aws)
    wait_until(lambda: EventQueue.objects.filter(read_at__isnull=False).exists(), "the first read")

    pretend_aws.control("POST", "clock", {"speed": ORDINARY})
    told: Execution = run(pipeline, "1.27")
    wait_for_success(told, 200)
    assert told.woken_at is not None
    assert told.ended_at is not None
    # Without health checks, a completed service is watched for ten seconds more.
    assert told.ended_at - told.woken_at < timedelta(seconds=20)
    assert told.event_at is not None
    # By polling each five seconds, a dozen.
    assert count_reads(told) <= 9
    wait_for_state(queue, EventQueue.State.RECEIVING)

    agent.kill()
    wait_for_state(queue, EventQueue.State.FAILING, seconds=TAKEOVER_SECONDS)
    agent.start()
    wait_for_state(queue, EventQueue.State.RECEIVING, seconds=90)
    again = run(pipeline, "1.28")
    wait_for_success(again, 200)
    assert again.woken_at is not None
    assert again.ended_at is not None
    assert again.ended_at - again.woken_at < timedelta(seconds=20)
