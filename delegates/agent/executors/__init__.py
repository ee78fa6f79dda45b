"""What a task can be: one file per kind; the manager's built-in delegate runs the same ones."""

from delegates.agent.executors.answers import Answer, Lines, Surroundings
from delegates.agent.executors.running import execute

__all__ = ["Answer", "Lines", "Surroundings", "execute"]
