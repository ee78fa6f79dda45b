"""connectors/specs."""
