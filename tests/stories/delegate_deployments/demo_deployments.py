"""Deployments of the demo, and what must be true of them whoever made their calls."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from deployments.execution.operations import run_pipeline
from deployments.models import AwsCall, Execution
from pipelines.models import Pipeline
from rbac.models import User
from sandbox.process import SandboxProcess
from tests.fixtures.processes import wait_until


@dataclass(frozen=True)
class Work:
    """One pipeline of one account."""

    aws: SandboxProcess
    deployer: User

    def run(self, tag: str, pipeline: str = "rolling_demo") -> Execution:
        pipeline_row = Pipeline.objects.get(identifier=pipeline)
        return run_pipeline(actor=self.deployer, pipeline=pipeline_row, artifact_tag=tag)

    def until_over(self, execution: Execution, seconds: float = 180) -> Execution:
        def is_over() -> bool:
            execution.refresh_from_db()
            return execution.is_over

        wait_until(is_over, f"the end of {execution}", seconds)
        return execution

    def deploy(self, tag: str) -> Execution:
        return self.until_over(self.run(tag))

    def mark(self) -> int:
        return self.aws.last_number()

    def effects(self, after: int) -> Counter[str]:
        """Count the writes of each operation since then."""
        return Counter(entry["operation"] for entry in self.aws.journal(after) if entry["effect"])

    def list_served_by(self, execution: Execution) -> list[list[dict[str, Any]]]:
        """Return the delegates that served each call, in order."""
        return [call.served_by for call in AwsCall.objects.filter(execution=execution).order_by("pk")]

    def check_once(self, execution: Execution, *, after: int) -> None:
        """Check that the execution is COMPLETED and no write took effect twice."""
        assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), execution.failure
        twice = {effect: count for effect, count in self.effects(after).items() if count > 1}
        assert not twice
