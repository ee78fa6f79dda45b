"""Logs of the agent and of its tasks, on disk and on their way to the manager."""
