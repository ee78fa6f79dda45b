"""Connectors, secrets and the file store: values, and what a connector needs to be tested."""
