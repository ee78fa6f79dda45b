"""Tests of overrides of manifests and variables."""
