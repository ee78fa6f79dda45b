"""The pipeline with every feature in front of the sandbox, with a delegate, people, and time in hand."""

from collections import Counter
from dataclasses import dataclass, field

import pytest

from delegates.task_queue import route_waiting_tasks
from deployments.approvals.operations import approve_step
from deployments.journal.runtime import FAILPOINTS, set_hook
from deployments.models import Approval, Execution
from rbac.models import Scope, User, UserGroup
from tests.deployments.conftest import _full_buckets, drive
from tests.deployments.engine.conftest import DEPLOY, Write, pipeline_text, stage_text, write
from tests.deployments.engine.simulator.schedule import Death
from tests.fixtures.engine_driver import Drive
from tests.fixtures.people import make_person
from tests.steps.kinds.conftest import Site, Worker, site, worker
from tests.survival.full_pipeline import Came, build_pipeline
from web.clock import get_database_time

__all__ = ["_full_buckets", "drive", "site", "worker", "write"]

LEASE = 61
MOST_TURNS = 600
AGENT_DIES = ("task.acquired", "task.performed")


@dataclass
class Fate:
    """The deaths of a story in order: workers at the engine's failpoints, agents at theirs.

    `gap` failpoints are passed in peace between two deaths of workers, `most` in all; the first is at the
    failpoint `first`, or with `anywhere` each where it happens to be. As many as `agents` tasks lose theirs.
    """

    first: int = 0
    gap: int = 0
    most: int = 0
    agents: int = 0
    anywhere: bool = False
    passed: Counter[str] = field(default_factory=Counter)
    deaths: list[str] = field(default_factory=list)
    _peace: int = 0

    def __call__(self, name: str) -> None:
        self.passed[name] += 1
        self._peace += 1
        if len(self.deaths) < self.most and self._peace > self.gap and self._is_due(name):
            self.deaths.append(name)
            self._peace = 0
            raise Death

    def _is_due(self, name: str) -> bool:
        return self.anywhere or name == FAILPOINTS[(self.first + len(self.deaths)) % len(FAILPOINTS)]


@dataclass
class Story:
    """One project with the pipeline, the people whom it asks, and those who work for it."""

    drive: Drive
    worker: Worker
    site: Site
    approvers: tuple[User, User]

    def run(self, tag: str, fate: Fate) -> Came:
        """Run it to its end with these deaths."""
        self.site.requests.clear()
        execution = self.drive.start(tag)
        set_hook(fate)
        try:
            for _ in range(MOST_TURNS):
                self._turn(execution, fate)
                if execution.is_over:
                    return Came(execution, self.site)
        finally:
            set_hook(None)
        raise AssertionError((execution.status, fate.deaths, self.drive.log(execution)[-5:]))

    def _turn(self, execution: Execution, fate: Fate) -> None:
        try:
            self.drive.reconcile()
        except Death:
            self._wait(LEASE)
        worked = self._serve(fate)
        self._decide(execution)
        execution.refresh_from_db()
        if not execution.is_over and not worked:
            due = max(execution.due_at, execution.dispatch_backoff_until or execution.due_at)
            self._wait(min(max(1.0, (due - self.drive.clock.now()).total_seconds()), 10.0))

    def _wait(self, seconds: float) -> None:
        self.drive.clock.move(seconds)
        self.drive.sandbox.advance(seconds)

    def _serve(self, fate: Fate) -> bool:
        """Let the agent run its tasks; a dead agent is noticed when its lease ends."""
        route_waiting_tasks(get_database_time())
        task = self.worker.take()
        if task is None:
            return False
        if fate.agents:
            fate.agents -= 1
            if fate.agents % len(AGENT_DIES):
                self.worker.perform(task)
            self._wait(LEASE)
            self.worker.lose(task)
        else:
            self.worker.complete(task, self.worker.perform(task))
        return True

    def _decide(self, execution: Execution) -> None:
        approval = (
            Approval.objects.filter(execution=execution, status="WAITING").exclude(plan_hash="").first()
        )
        if approval is None or approval.is_being_refreshed or approval.decision_count:
            return
        for number, person in enumerate(self.approvers):
            inputs = {} if number else {"ticket": "T-1"}
            approve_step(actor=person, approval=approval, diff=approval.plan_hash, inputs=inputs)


@pytest.fixture
def story(drive: Drive, worker: Worker, site: Site, write: Write) -> Story:
    """The pipeline, saved as a person would, on a service that was deployed before."""
    scope = drive.pipeline.scope
    people = make_person("alice", "viewer", scope), make_person("bob", "viewer", scope)
    group = UserGroup.objects.create(scope=Scope.objects.account(), identifier="ops", name="Operations")
    group.users.add(*people)
    alarm = {"Namespace": "Shop", "MetricName": "Errors", "Statistic": "Sum", "Period": 60}
    alarm |= {"ComparisonOperator": "GreaterThanThreshold", "EvaluationPeriods": 1, "Threshold": 1.0}
    drive.call("cloudwatch", "PutMetricAlarm", {"AlarmName": "errors", **alarm})
    drive.call(
        "cloudwatch", "SetAlarmState", {"AlarmName": "errors", "StateValue": "OK", "StateReason": "so"}
    )
    assert write(pipeline_text(stage_text(DEPLOY))).run("1.27").outcome == "COMPLETED"
    write(build_pipeline(site))
    return Story(drive, worker, site, people)
