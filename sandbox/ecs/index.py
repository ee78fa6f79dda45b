"""Which tasks belong to a service and which addresses are taken, without looking at every task there is."""

from collections import Counter
from collections.abc import Iterable

from sandbox.ecs.records import Task


class TaskIndex:
    """Kept beside the tasks; it can be made again from them at any time."""

    def __init__(self, tasks: Iterable[Task] = ()) -> None:
        self._of_service: dict[str, dict[str, Task]] = {}
        self._addresses: Counter[str] = Counter()
        for task in tasks:
            self.add(task)

    def add(self, task: Task) -> None:
        if task.service_arn is not None:
            self._of_service.setdefault(task.service_arn, {})[task.task_arn] = task
        if task.last_status != "STOPPED" and task.ip:
            self._addresses[task.ip] += 1

    def remove(self, task: Task) -> None:
        """Forget a task that is no longer shown."""
        if task.service_arn is not None:
            self._of_service.get(task.service_arn, {}).pop(task.task_arn, None)

    def free_address(self, task: Task) -> None:
        """Give back the address of a task that has stopped."""
        self._addresses[task.ip] -= 1
        if self._addresses[task.ip] <= 0:
            del self._addresses[task.ip]

    def is_taken(self, address: str) -> bool:
        return address in self._addresses

    def of_service(self, arn: str) -> list[Task]:
        return list(self._of_service.get(arn, {}).values())
