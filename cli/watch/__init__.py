"""Watching an execution until its end."""
