"""Actions that run ECS tasks to their end: fetch, launch, completion, leftover tasks."""

from steps.actions.run_task.completion import WaitForTasks
from steps.actions.run_task.launch import FetchRunTask, RegisterTaskToRun, RunTasks
from steps.actions.run_task.leftover_tasks import FindLeftoverTasks, StopEarlierTasks, StopLeftoverTasks

__all__ = [
    "FetchRunTask",
    "FindLeftoverTasks",
    "RegisterTaskToRun",
    "RunTasks",
    "StopEarlierTasks",
    "StopLeftoverTasks",
    "WaitForTasks",
]
