"""REST API of connectors, secrets and files."""
