"""Agent protocol, the manager's end."""
