"""Overrides of a service in an environment and an infrastructure, and the effective values."""
