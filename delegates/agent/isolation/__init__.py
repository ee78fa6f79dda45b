"""Isolation of tasks: a user or namespaces, and a folder, for each."""

from delegates.agent.isolation.probe import detect_isolation
from delegates.agent.isolation.users import CannotIsolate
from delegates.agent.isolation.workspaces import (
    Isolation,
    IsolationLevel,
    TaskWorkspace,
    end_process,
    open_workspace,
)

__all__ = [
    "CannotIsolate",
    "Isolation",
    "IsolationLevel",
    "TaskWorkspace",
    "detect_isolation",
    "end_process",
    "open_workspace",
]
