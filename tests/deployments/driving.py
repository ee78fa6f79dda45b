"""Drives executions in a test: the engine's clock and the sandbox's are moved by hand, together."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from delegates.access.aws_access import open_aws_access
from deployments.engine.dispatch import claim_due_batches, reconcile_batch
from deployments.execution.operations import run_pipeline
from deployments.journal.runtime import EngineRuntime
from deployments.log import iterate_lines
from deployments.models import AwsCall, Execution
from pipelines.models import Pipeline
from rbac.models import User
from sandbox.process import SandboxProcess


@dataclass
class Clock:
    """A clock that moves when told; ahead of the real one, so that operations are never in its future."""

    moment: datetime = field(default_factory=lambda: datetime.now(UTC) + timedelta(seconds=30))

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return self.moment.timestamp()

    def move(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


@dataclass
class Drive:
    """One project with the demo in it, and time in the hand of the test."""

    sandbox: SandboxProcess
    deployer: User
    pipeline: Pipeline
    clock: Clock = field(default_factory=Clock)

    @property
    def world(self) -> EngineRuntime:
        return EngineRuntime(open_door=open_aws_access, now=self.clock.now, monotonic=self.clock.monotonic)

    def start(self, tag: str = "", **choices: Any) -> Execution:
        return run_pipeline(actor=self.deployer, pipeline=self.pipeline, artifact_tag=tag, **choices)

    def look(self) -> None:
        """One tick of the dispatcher and the looks that it wakes."""
        for group in claim_due_batches(self.world):
            reconcile_batch(group, world=self.world)

    def pass_time(self, seconds: float, step: float = 1.0) -> None:
        """Let time go by, second by second, in AWS and here."""
        left = seconds
        while left > 0:
            self.clock.move(step)
            self.sandbox.advance(step)
            self.look()
            left -= step

    def until_over(self, execution: Execution, most_seconds: float = 1800) -> Execution:
        """Let time go by until the execution has ended."""
        left = most_seconds
        while left > 0:
            self.look()
            execution.refresh_from_db()
            if execution.is_over:
                return execution
            turn = max(execution.look_at, execution.nudged_until or execution.look_at)
            wait = max(1.0, (turn - self.clock.now()).total_seconds())
            self.clock.move(wait)
            self.sandbox.advance(wait)
            left -= wait
        raise AssertionError(f"{execution} is still {execution.status}: {self.log(execution)[-5:]}")

    def run(self, tag: str = "", **choices: Any) -> Execution:
        return self.until_over(self.start(tag, **choices))

    def log(self, execution: Execution) -> list[str]:
        return [line["text"] for line in iterate_lines(execution.pk)]

    def mark(self) -> int:
        """The number of the last call that the account has seen."""
        return self.sandbox.last_number()

    def effects(self, after: int = 0) -> list[str]:
        """The operations that changed something in AWS, in order."""
        return [entry["operation"] for entry in self.sandbox.journal(after) if entry["effect"]]

    def service(self, name: str = "myapp") -> dict[str, Any]:
        """The ECS service as AWS has it."""
        door = open_aws_access(self._connector, "us-east-1")
        answer = door.call("ecs", "DescribeServices", {"cluster": "demo", "services": [name]})
        found: dict[str, Any] = answer["services"][0] if answer["services"] else {}
        return found

    def call(self, service: str, operation: str, params: dict[str, Any]) -> dict[str, Any]:
        """What another client would do in the same account."""
        return open_aws_access(self._connector, "us-east-1").call(service, operation, params)

    def calls(self, execution: Execution) -> list[AwsCall]:
        return list(AwsCall.objects.filter(execution=execution).order_by("pk"))

    @property
    def _connector(self):  # type: ignore[no-untyped-def]
        from connectors.models import Connector

        return Connector.objects.get(identifier="sandbox_aws")
