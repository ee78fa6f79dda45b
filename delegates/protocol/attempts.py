"""The attempt at a task that an agent speaks of: found by task, fence and instance."""

from uuid import UUID

from delegates.models import DelegateInstance, TaskAttempt
from delegates.protocol.problems import NoSuchTask


def pk_of(text: str) -> UUID:
    """The task of an address. Raises `NoSuchTask`."""
    try:
        return UUID(text)
    except ValueError as problem:
        raise NoSuchTask("There is no such task.") from problem


def attempt_of(instance: DelegateInstance, task_id: UUID, fence: int) -> TaskAttempt:
    """The attempt that this instance speaks of. Raises `NoSuchTask` where it never had one."""
    found = TaskAttempt.objects.filter(task=task_id, fence=fence, instance=instance)
    attempt = found.select_related("task", "instance__delegate").first()
    if attempt is None:
        raise NoSuchTask("There is no such task.")
    return attempt
