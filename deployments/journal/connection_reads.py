"""Reads of Slipway's own records that actions make as calls: which ECS tasks are connected as a delegate."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from delegates.queries.task_connections import find_task_connections
from rbac.models import Scope
from web.clock import get_database_time


@dataclass(frozen=True)
class ConnectionReads:
    """Access that answers from the records of delegates in a scope and above it."""

    scope: Scope

    def call(self, _service: str, _operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return `found`, and for a known delegate `connected` tasks and texts of `refusals`.

        `params` have the name of the `delegate`, ARNs of `tasks`, and the time `since` which refusals count.
        """
        connections = find_task_connections(
            self.scope,
            str(params["delegate"]),
            [str(task) for task in params["tasks"]],
            since=datetime.fromisoformat(str(params["since"])),
            now=get_database_time(),
        )
        if connections is None:
            return {"found": False}
        return {
            "found": True,
            "connected": list(connections.connected),
            "refusals": list(connections.refusals),
        }
