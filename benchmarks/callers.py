"""Attribution of calls in the sandbox's journal to parts of Slipway."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

_OF_SYNC = frozenset({"ListServices", "DescribeTasks", "DescribeContainerInstances", "GetMetricData"})
_OF_DRIFT = frozenset({"DescribeScalingPolicies"})


def caller_of(entry: Mapping[str, Any]) -> str:
    """Return the likely caller; reads of scalable targets by drift count as the engine's."""
    operation, params = entry["operation"], entry.get("params") or {}
    is_of_cluster = operation == "ListTasks" and "serviceName" not in params
    if operation in _OF_SYNC or is_of_cluster or "include" in params and operation == "DescribeServices":
        return "sync"
    return "drift" if operation in _OF_DRIFT else "engine"


def count_by_caller(entries: Iterable[Mapping[str, Any]]) -> str:
    """Return the number of calls of each caller as one line."""
    counts = Counter(map(caller_of, entries))
    return ", ".join(f"{caller} {counts[caller]}" for caller in ("engine", "sync", "drift"))
