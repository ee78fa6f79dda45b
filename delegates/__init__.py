"""Delegates: registry, routing, agent protocol, installation, and the agent itself."""
