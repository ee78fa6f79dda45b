"""Delegate agent: a program that fetches tasks from a manager and runs them; no framework."""

VERSION = "0.1.0"
