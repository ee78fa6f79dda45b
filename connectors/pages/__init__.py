"""Pages of connectors, secrets and files."""
