"""Emptying the test database while processes of a story still use it."""
