"""The documentation site: its build, and the reference pages that are generated from code."""
