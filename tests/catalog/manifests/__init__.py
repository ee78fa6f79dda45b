"""Tests of manifests: reading, stores, checks."""
