"""Tests of delegate specifications, their linter and troubleshooting."""
