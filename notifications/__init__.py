"""Notifications of external programs: rules, an outbox, and its sender."""
