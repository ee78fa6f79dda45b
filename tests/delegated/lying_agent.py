"""An agent that does its tasks and answers what LIES says: JSON, from an operation or kind to a result."""

import json
import os
import sys
from dataclasses import replace

from delegates.agent.__main__ import main
from delegates.agent.executors import running
from delegates.agent.executors.answers import Answer, Surroundings
from delegates.agent.work import Held

LIES = json.loads(os.environ.get("LIES", "{}"))


def _lying(executor: running.Executor) -> running.Executor:
    def run(held: Held, around: Surroundings) -> Answer:
        answer = executor(held, around)
        what = str(held.task.params.get("operation", held.task.kind))
        return replace(answer, result=LIES[what]) if what in LIES else answer

    return run


if __name__ == "__main__":
    running.EXECUTORS = {kind: _lying(executor) for kind, executor in running.EXECUTORS.items()}
    sys.exit(main())
