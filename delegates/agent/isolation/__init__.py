"""Keeps tasks apart: a user or namespaces and a folder for each, and no process that outlives it."""

from delegates.agent.isolation.levels import CannotIsolate, Isolation, Level
from delegates.agent.isolation.probing import own_isolation
from delegates.agent.isolation.workspaces import Workspace, end, open_workspace

__all__ = ["CannotIsolate", "Isolation", "Level", "Workspace", "end", "open_workspace", "own_isolation"]
