"""Filling the test database quickly, and emptying it while processes of a story still use it."""
