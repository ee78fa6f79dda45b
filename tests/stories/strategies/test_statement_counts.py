"""SQL statements of the engine: rows are loaded once per reconcile pass, commits write what changed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import connection

from deployments.engine import dispatch
from deployments.engine import reconcile as passes
from deployments.engine.lease import wake_execution
from tests.fixtures.engine_driver import Drive
from tests.stories.strategies.scenario import Play

pytestmark = pytest.mark.django_db(transaction=True)

MOST_PER_ADVANCE = 8
MOST_FOR_NOTHING = 4
_OF_TRANSACTIONS = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE")
_ASK_A_PERSON = """\
        type: Deployment
        failureStrategies:
          - onFailure:
              errors: [AllErrors]
              action:
                {type: ManualIntervention, spec: {timeout: 1h, onTimeout: {action: {type: Ignore}}}}
"""


@dataclass
class Count:
    """Statements of an engine at work, those that begin and end transactions aside."""

    statements: int = 0
    advances: int = 0
    of_idle_groups: list[int] = field(default_factory=list)
    of_passes: list[int] = field(default_factory=list)

    @property
    def per_advance(self) -> float:
        """Statements of all passes, for each advance that they made."""
        return sum(self.of_passes) / self.advances

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the statements of this thread's connection in the block."""

        def count(execute: Callable[..., Any], sql: str, *arguments: Any) -> Any:
            if not sql.startswith(_OF_TRANSACTIONS):
                self.statements += 1
            return execute(sql, *arguments)

        with connection.execute_wrapper(count):
            yield


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Count:
    """Counts the statements of passes, and of looks at groups that lead to no pass."""
    count = Count()
    look, advance, look_at_group = passes.reconcile, passes._advance, dispatch.reconcile_batch

    def counted_advance(*arguments: Any) -> Any:
        count.advances += 1
        return advance(*arguments)

    def counted_look(*arguments: Any, **keywords: Any) -> bool:
        before = count.statements
        has_more = look(*arguments, **keywords)
        count.of_passes.append(count.statements - before)
        return has_more

    def counted_group(*arguments: Any, **keywords: Any) -> None:
        before, passes_before = count.statements, len(count.of_passes)
        with count.counting():
            look_at_group(*arguments, **keywords)
        if len(count.of_passes) == passes_before:
            count.of_idle_groups.append(count.statements - before)

    monkeypatch.setattr(passes, "_advance", counted_advance)
    monkeypatch.setattr(dispatch, "reconcile", counted_look)
    monkeypatch.setattr("tests.fixtures.engine_driver.reconcile_batch", counted_group)
    return count


def test_a_deployment_takes_few_statements(play: Play, count: Count) -> None:
    execution = play.run(play.second)
    assert execution.status == "SUCCESS", execution.failure
    assert count.advances >= 25
    assert count.per_advance <= MOST_PER_ADVANCE, count
    # A task or service deployment is read in passes of its execution; a service with others, and before them.
    assert bool(count.of_idle_groups) == play.strategy.is_observed_in_batches
    assert max(count.of_idle_groups, default=0) <= MOST_FOR_NOTHING


def test_a_rollback_takes_few_statements(play: Play, count: Count) -> None:
    execution = play.run("crash")
    assert execution.status == "FAILED"
    assert count.per_advance <= MOST_PER_ADVANCE, count


def test_a_pass_that_finds_nothing_to_do_takes_few_statements(drive: Drive, count: Count) -> None:
    pipeline = drive.pipeline
    pipeline.yaml = pipeline.yaml.replace("        type: Deployment\n", _ASK_A_PERSON, 1)
    pipeline.save(update_fields=["yaml"])
    execution = drive.start("crash")
    for _ in range(900):
        drive.pass_time(1)
        execution.refresh_from_db()
        if execution.status == "INTERVENTION_WAITING":
            break
    assert execution.status == "INTERVENTION_WAITING"
    count.of_passes.clear()
    for _ in range(3):
        # Somebody else's decision, a lost message, the minute that is up.
        wake_execution(execution.pk, drive.clock.now())
        drive.reconcile()
    assert len(count.of_passes) == 3
    assert max(count.of_passes) <= MOST_FOR_NOTHING
