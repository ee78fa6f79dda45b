"""The real thing: processes end without a word at each named place, an agent, the web server, the broker."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import redis
from pytest_django import Settings

from aws.caller import BotoCaller
from aws.clients import AccessKey
from delegates.models import DelegateTask
from deployments.approvals.operations import approve_step
from deployments.execution.operations import run_pipeline
from deployments.journal import rate_limits
from deployments.journal.runtime import FAILPOINTS
from deployments.models import Approval, Execution
from guards.address_policy import AddressPolicy, parse_networks
from ops.demo.pipelines import SandboxFacts
from ops.demo.seed import seed_demo
from pipelines.operations.pipelines import save_pipeline
from rbac.models import Scope, User, UserGroup
from sandbox.process import SandboxProcess
from tests.faults.killable_process import Part
from tests.fixtures.agents import CALM, WEB, WEB_OPTIONS, WORKER_OPTIONS, Manager
from tests.fixtures.people import make_person
from tests.fixtures.processes import wait_until
from tests.ports import free_port
from tests.secret_watch.marker import planted
from tests.steps.kinds.conftest import Site, site
from tests.stories.delegate_deployments.conftest import StartDying, start
from tests.stories.delegate_deployments.demo_deployments import Work
from tests.survival.full_pipeline import Came, build_pipeline

__all__ = ["site", "start"]

pytestmark = [pytest.mark.soak, pytest.mark.django_db(transaction=True), pytest.mark.timeout(1800)]

DYING_WORKER = (sys.executable, *CALM, "-m", "tests.survival.crashing_worker", "--quiet", "-A", "config")
# Each death leaves a lease of a minute.
LONGEST = 1200


@pytest.fixture(scope="module")
def deaths(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the places where a worker dies next."""
    return tmp_path_factory.mktemp("deaths")


@pytest.fixture(scope="module")
def manager(
    child_environment: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory, deaths: Path
) -> Iterator[Manager]:
    """A web server and a worker that may be told where to die."""
    folder, port = tmp_path_factory.mktemp("manager"), str(free_port())
    url = f"http://127.0.0.1:{port}"
    environment = {**child_environment, "PORT": port, "PUBLIC_URL": url, "DEATHS": str(deaths)}
    options = ("worker", "--beat", *WORKER_OPTIONS, "--schedule", str(folder / "beat"))
    web = Part("web", [*WEB, "--port", port, *WEB_OPTIONS], environment=environment, folder=folder)
    worker = Part("worker", [*DYING_WORKER, *options], environment=environment, folder=folder)
    running_manager = Manager(url, web, worker)
    try:
        running_manager.start()
        yield running_manager
    finally:
        running_manager.kill()
        print(worker.log.read_text(errors="replace")[-3000:])


@pytest.fixture
def work(
    live_broker: str,
    manager: Manager,
    pretend_aws: SandboxProcess,
    transactional_db: None,
    settings: Settings,
    account: Scope,
) -> Work:
    """The demo, whose calls to AWS leave from the workers, with an alarm and people who are asked."""
    rate_limits.reset_buckets()
    pretend_aws.reset()
    settings.SANDBOX_URL = pretend_aws.url
    seed_demo(SandboxFacts.from_wire(pretend_aws.seed()))
    key = AccessKey("AKIASANDBOX", planted("of-the-test"))
    caller = BotoCaller(
        key, "us-east-1", pretend_aws.url, AddressPolicy(allowed_networks=parse_networks(["127.0.0.1/32"]))
    )
    alarm = {"Namespace": "Shop", "MetricName": "Errors", "Statistic": "Sum", "Period": 60}
    alarm |= {"ComparisonOperator": "GreaterThanThreshold", "EvaluationPeriods": 1, "Threshold": 1.0}
    caller.call("cloudwatch", "PutMetricAlarm", {"AlarmName": "errors", **alarm})
    state = {"AlarmName": "errors", "StateValue": "OK", "StateReason": "so"}
    caller.call("cloudwatch", "SetAlarmState", state)
    return Work(pretend_aws, User.objects.get(username="deployer"))


def _decide(execution: Execution, people: tuple[User, User]) -> bool:
    """Approve as both people; return whether the step is decided."""
    approval = Approval.objects.filter(execution=execution).exclude(plan_hash="").first()
    if approval is None or approval.is_being_refreshed:
        return False
    for number, person in enumerate(people):
        inputs = {} if number else {"ticket": "T-1"}
        approve_step(actor=person, approval=approval, diff=approval.plan_hash, inputs=inputs)
    return True


def test_everything_survives_whatever_dies(
    work: Work,
    manager: Manager,
    deaths: Path,
    start: StartDying,
    site: Site,
    broker_url: str,
) -> None:
    scope = Scope.objects.get(path="account/default/demo")
    people = make_person("alice", "viewer", scope), make_person("bob", "viewer", scope)
    group = UserGroup.objects.create(scope=Scope.objects.account(), identifier="ops", name="Operations")
    group.users.add(*people)
    text = build_pipeline(site).replace("[scripts]", "[prod]")
    admin = User.objects.get(username="admin")
    pipeline = save_pipeline(actor=admin, scope=scope, yaml=text)
    dying = start("one", dies_at=f"task.performed:{DelegateTask.Kind.SHELL}")
    for name in FAILPOINTS:
        (deaths / name).touch()
    execution = run_pipeline(actor=work.deployer, pipeline=pipeline, artifact_tag="1.27")
    wait_until(lambda: _decide(execution, people), "the approval", LONGEST)
    wait_until(lambda: not dying.is_alive, "the death of the agent", LONGEST)
    start("two")
    manager.web.die_and_come_back()
    with redis.Redis.from_url(broker_url) as client:
        client.flushall()
    work.until_over(execution, LONGEST)
    came = Came(execution, site)
    assert list(deaths.iterdir()) == []
    assert came.broken() == []
    assert (execution.status, execution.outcome) == ("IGNORE_FAILED", "COMPLETED"), execution.failure
    expected = {"RegisterTaskDefinition": 1, "CreateService": 1, "UpdateService": 1}
    assert {name: work.effects(0)[name] for name in expected} == expected
    assert came.steps["build"].attempt > 1
