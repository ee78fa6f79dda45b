"""Connectors, secrets and the file store."""
