"""Lines of the process log for changed statuses of an execution, its stages and its steps."""

import logging
from collections.abc import Sequence
from typing import Final

from deployments.models import Execution, StageExecution, StepExecution
from steps.states import Status

logger = logging.getLogger(__name__)
# A waiting step goes back and forth between these with each check.
_EACH_CHECK: Final = {Status.RUNNING, Status.ASYNC_WAITING}


class StatusLog:
    """The statuses of one pass as logged last; each change is one line, after its commit."""

    def __init__(self) -> None:
        self._statuses: dict[tuple[str, object], str] = {}

    def record(
        self, execution: Execution, stages: Sequence[StageExecution], steps: Sequence[StepExecution]
    ) -> None:
        """Log the statuses that differ from the recorded ones; the first ones are only recorded."""
        for stage in stages:
            self._record("Stage", stage, stage=stage.identifier)
        for step in steps:
            self._record("Step", step, stage=step.stage.identifier, step=step.identifier)
        # Last: an execution ends after its stages.
        self._record("Execution", execution)

    def _record(self, kind: str, row: Execution | StageExecution | StepExecution, **fields: str) -> None:
        previous = self._statuses.get((kind, row.pk))
        self._statuses[kind, row.pk] = row.status
        if previous is not None and previous != row.status:
            level = logging.DEBUG if {previous, row.status} == _EACH_CHECK else logging.INFO
            logger.log(
                level, "%s changed", kind, extra={"status": row.status, "previous": previous, **fields}
            )
