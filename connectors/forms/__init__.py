"""Forms of connectors, secrets and files."""
