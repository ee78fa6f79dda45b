"""Executors of tasks, one module per kind; the built-in delegate uses them too."""

from delegates.agent.executors.dispatch import execute_task
from delegates.agent.executors.task_results import ExecutorContext, TaskLogSink, TaskResult

__all__ = [
    "ExecutorContext",
    "TaskLogSink",
    "TaskResult",
    "execute_task",
]
