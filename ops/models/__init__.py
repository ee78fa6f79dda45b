"""Rows about this installation."""

from ops.models.acceptance_runs import AcceptanceRun
from ops.models.processes import ServerProcess

__all__ = ["AcceptanceRun", "ServerProcess"]
