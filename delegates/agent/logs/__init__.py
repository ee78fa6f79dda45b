"""What tasks and the agent itself have to say, and how it gets to the manager."""
