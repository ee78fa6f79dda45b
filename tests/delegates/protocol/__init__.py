"""The manager's end of the agent protocol."""
