"""Completion of expressions: static in a pipeline draft, with values in an execution."""
