"""Running ECS tasks that end by themselves: fetched, started, followed, and never left behind."""

from steps.actions.run_task.fetch import FetchRunTask, RegisterTaskToRun
from steps.actions.run_task.follow import WaitForTasks
from steps.actions.run_task.leftovers import FindLeftTasks, StopEarlierTasks, StopLeftTasks
from steps.actions.run_task.start import RunTasks

__all__ = [
    "FetchRunTask",
    "FindLeftTasks",
    "RegisterTaskToRun",
    "RunTasks",
    "StopEarlierTasks",
    "StopLeftTasks",
    "WaitForTasks",
]
