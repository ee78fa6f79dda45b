"""Plays a strategy in front of the sandbox: asked for by REST, driven by hand, compared with before."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from rest_framework.test import APIClient

from connectors.models import FileNode
from deployments.engine.lease import LEASE_DURATION
from deployments.journal.runtime import set_hook
from deployments.models import AwsCall, Execution, StepExecution
from steps.states import TERMINAL_STATUSES
from tests.deployments.engine.simulator.schedule import Death
from tests.fixtures.engine_driver import Drive
from tests.stories.strategies.account_state import State, differences, state_of
from tests.stories.strategies.strategies import Strategy

STANDS_STILL = LEASE_DURATION.total_seconds() + 1
MOST_TURNS = 2000


@dataclass
class Play:
    """One strategy with a deployed version, and the operations of the stories."""

    strategy: Strategy
    drive: Drive
    client: APIClient
    before: State = field(default_factory=dict)
    deaths: list[str] = field(default_factory=list)

    # --- asking ----------------------------------------------------------------------------------

    def start(self, tag: str) -> Execution:
        """Press Run, by REST."""
        address = f"/api/v1/pipelines/{self.drive.pipeline.pk}/executions"
        return self._post(address, {"artifact": {"tag": tag}})

    def abort(self, execution: Execution, *, roll_back: bool) -> None:
        self._post(f"/api/v1/executions/{execution.pk}/abort", {"rollback": roll_back})

    def roll_back(self, execution: Execution) -> Execution:
        """Roll back an ended execution, and wait for the end."""
        rollback = self._post(f"/api/v1/executions/{execution.pk}/rollback", {})
        self.drive.reconcile()
        return self.until_over(rollback)

    def _post(self, address: str, body: dict[str, Any]) -> Execution:
        answer = self.client.post(address, body, format="json")
        assert answer.status_code in (201, 202), answer.json()
        return Execution.objects.get(pk=answer.json()["id"])

    def document(self, execution: Execution) -> dict[str, Any]:
        answer: dict[str, Any] = self.client.get(f"/api/v1/executions/{execution.pk}").json()
        return answer

    # --- letting time go by ----------------------------------------------------------------------

    def turn(self, execution: Execution) -> None:
        """Reconcile due executions, in a worker that may die, and advance time to the next pass."""
        try:
            self.drive.reconcile()
        except Death:
            self.wait_for_the_lease()
        execution.refresh_from_db()
        if not execution.is_over:
            due = max(execution.due_at, execution.dispatch_backoff_until or execution.due_at)
            self._wait(max(1.0, (due - self.drive.clock.now()).total_seconds()))

    def wait_for_the_lease(self) -> None:
        """Let the lease of a dead worker expire."""
        self._wait(STANDS_STILL)

    def _wait(self, seconds: float) -> None:
        self.drive.clock.move(seconds)
        self.drive.sandbox.advance(seconds)

    def until(self, execution: Execution, question: Callable[[], object]) -> Execution:
        for _ in range(MOST_TURNS):
            if question():
                return execution
            self.turn(execution)
        raise AssertionError(f"it never came to that; {execution.status}: {self.log(execution)[-5:]}")

    def until_over(self, execution: Execution) -> Execution:
        def is_over() -> bool:
            execution.refresh_from_db()
            return execution.is_over

        return self.until(execution, is_over)

    def until_step(self, execution: Execution, identifier: str) -> StepExecution:
        """Go on until a step has made its first write, or is over without one; gives back that step."""
        step = StepExecution.objects.get(stage__execution=execution, identifier=identifier)

        def has_written() -> bool:
            step.refresh_from_db()
            return (
                step.status in TERMINAL_STATUSES
                or AwsCall.objects.filter(step=step, is_write=True, state="ANSWERED").exists()
            )

        self.until(execution, has_written)
        return step

    @property
    def second(self) -> str:
        """A version that ends well after the one that serves."""
        return self.strategy.versions[1]

    @property
    def third(self) -> str:
        return self.strategy.versions[2]

    @property
    def fourth(self) -> str:
        return self.strategy.versions[3]

    @property
    def undo_outcome(self) -> str:
        """Return the outcome of a failed execution that left no changes."""
        return "ROLLED_BACK" if self.strategy.rolls_back else "FAILED"

    def run(self, tag: str) -> Execution:
        return self.until_over(self.start(tag))

    def dying_at(self, place: Callable[[str], bool], tag: str) -> Execution:
        """Run it with workers that die wherever `place` says so of the failpoint just passed."""
        execution = self.start(tag)

        def die(name: str) -> None:
            if place(name):
                self.deaths.append(name)
                raise Death

        set_hook(die)
        try:
            return self.until_over(execution)
        finally:
            set_hook(None)

    # --- the account -----------------------------------------------------------------------------

    def settle(self) -> None:
        """Advance time until AWS is stable: tasks are stopped, targets drained."""
        self.drive.sandbox.advance(150)
        self.drive.clock.move(150)

    def remember(self) -> None:
        """Save the present state as the start of later stories."""
        self.settle()
        self.before = state_of(self.drive.call)

    def list_changes(self) -> list[str]:
        """Return the differences of the account from the saved state, without ids and dates."""
        self.settle()
        return differences(self.before, state_of(self.drive.call))

    def edit(self, name: str, old: str, new: str) -> None:
        """Write something else into one of the manifests."""
        node = FileNode.objects.get(path=f"{self.strategy.folder}/{name}")
        assert old in node.content, node.content
        node.content = node.content.replace(old, new)
        node.save()

    # --- what was told ---------------------------------------------------------------------------

    def log(self, execution: Execution) -> list[str]:
        return self.drive.log(execution)

    def checklist(self, execution: Execution) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self.document(execution)["checklist"]
        return entries

    def writes(self, execution: Execution) -> list[str]:
        """Return the writes of an execution in order."""
        rows = AwsCall.objects.filter(execution=execution, is_write=True).order_by("pk")
        return [f"{row.service} {row.operation}" for row in rows]

    def effects(self, execution: Execution) -> list[str]:
        """Return the answered writes in order, including confirmed ones."""
        rows = AwsCall.objects.filter(execution=execution, is_write=True, state="ANSWERED").order_by("pk")
        return [f"{row.service} {row.operation}" for row in rows]

    def get_deployed_name(self, execution: Execution) -> str:
        """Return the name of the last ECS service that the execution deployed."""
        steps = StepExecution.objects.filter(stage__execution=execution, section="EXECUTION")
        names = [step.outputs.get("serviceName") for step in steps.order_by("position")]
        return str([name for name in names if name][-1])

    def get_result(self, execution: Execution) -> tuple[str, str]:
        return execution.status, execution.outcome


def list_broken_lines(checklist: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lines of a checklist that are not as they should be."""
    return [line for line in checklist if not line["ok"]]
