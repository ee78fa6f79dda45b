"""The reasons in RunTask's `failures`, in words that say what to do (ECS API failure reasons)."""

from collections.abc import Iterable

from aws.types import TaskFailure

_WORDS = (
    ("RESOURCE:CPU", "No container instance has enough free CPU units: add instances, or ask for less."),
    ("RESOURCE:MEMORY", "No container instance has enough free memory: add instances, or ask for less."),
    ("RESOURCE:PORTS", "On no container instance are the host ports free that the task wants."),
    ("RESOURCE:ENI", "No container instance has a free network interface for the task."),
    ("RESOURCE:GPU", "No container instance has enough free GPUs."),
    ("RESOURCE:FARGATE", "Fargate has no capacity for this task now: run again, or use other subnets."),
    ("CAPACITY", "AWS has no capacity for this task now: run again, or use other subnets."),
    ("AGENT", "The agent of the container instance is not connected, so it takes no tasks."),
    ("ATTRIBUTE", "No container instance has the attributes that the task definition needs."),
    ("LOCATION", "No container instance is where the placement constraints want the task."),
    ("MEMBEROF", "No container instance meets the placement constraints."),
    ("INACTIVE", "The capacity that the task was meant for is being taken away."),
    ("MISSING", "What the request refers to does not exist in this cluster."),
)


def in_words(failures: Iterable[TaskFailure]) -> list[str]:
    """One sentence for each task that was not started, with AWS's own word for it."""
    return [_sentence(one) for one in failures]


def _sentence(failure: TaskFailure) -> str:
    asked = failure.reason.upper().replace(" ", "")
    words = next((text for word, text in _WORDS if word in asked), "AWS did not place the task.")
    where = f" at {failure.arn}" if failure.arn else ""
    detail = f" {failure.detail}" if failure.detail else ""
    return f"{words} ({failure.reason or 'no reason given'}{where}){detail}"
