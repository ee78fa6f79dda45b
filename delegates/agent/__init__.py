"""Delegate agent: a program that fetches tasks from a manager and runs them; no framework."""

VERSION = "0.1.0"
# What this release can do and earlier ones cannot; the manager assigns tasks by it.
FEATURES = ("aws-sessions", "configuration-secrets", "doctor", "secret-managers", "web-identity")
