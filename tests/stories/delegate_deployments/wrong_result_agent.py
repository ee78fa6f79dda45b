"""An agent that does its tasks and answers what LIES says: JSON, from an operation or kind to a result."""

import json
import os
import sys
from dataclasses import replace

from delegates.agent.__main__ import main
from delegates.agent.executors import dispatch
from delegates.agent.executors.task_results import ExecutorContext, TaskResult
from delegates.agent.tasks import HeldTask

LIES = json.loads(os.environ.get("LIES", "{}"))


def _lying(executor: dispatch.Executor) -> dispatch.Executor:
    def run(held_task: HeldTask, around: ExecutorContext) -> TaskResult:
        answer = executor(held_task, around)
        operation = str(held_task.task.params.get("operation", held_task.task.kind))
        return replace(answer, result=LIES[operation]) if operation in LIES else answer

    return run


if __name__ == "__main__":
    dispatch.EXECUTORS = {kind: _lying(executor) for kind, executor in dispatch.EXECUTORS.items()}
    sys.exit(main())
