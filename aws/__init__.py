"""Typed access to AWS: callers, API clients, validation and previews; the only package with boto3."""
