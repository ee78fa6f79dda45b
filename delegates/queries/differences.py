"""Differences between the instances of one delegate, which should be alike (R029, R068, R071, R072)."""

import re
from collections.abc import Callable, Iterable

from delegates.models import DelegateInstance

_TASK_ARN = re.compile(r"arn:aws[\w-]*:ecs:(?P<region>[\w-]+):(?P<account>\d{12}):task/")


def list_differences(instances: Iterable[DelegateInstance]) -> tuple[str, ...]:
    """Return a sentence for each fact in which these instances of one delegate differ.

    An instance that does not report a fact, such as one outside ECS, does not differ in it.
    """
    rows = list(instances)
    sentences = (
        _describe(rows, "run in the AWS accounts", lambda instance: _read_arn(instance, "account")),
        _describe(rows, "run in the regions", lambda instance: _read_arn(instance, "region")),
        _describe(rows, "run in the clusters", _read_cluster),
        _describe(rows, "run the versions", lambda instance: instance.version),
        _describe(rows, "have the tags", lambda instance: " ".join(sorted(map(str, instance.tags)))),
    )
    return tuple(sentence for sentence in sentences if sentence)


def _describe(instances: list[DelegateInstance], phrase: str, read: Callable[[DelegateInstance], str]) -> str:
    values = sorted({value for instance in instances if (value := read(instance))})
    return f"Its instances {phrase} {', '.join(values[:-1])} and {values[-1]}." if len(values) > 1 else ""


def _read_arn(instance: DelegateInstance, part: str) -> str:
    match = _TASK_ARN.match(str(instance.ecs.get("task_arn", ""))) if instance.ecs else None
    return match[part] if match else ""


def _read_cluster(instance: DelegateInstance) -> str:
    return str(instance.ecs.get("cluster", "")).rpartition("/")[2] if instance.ecs else ""
