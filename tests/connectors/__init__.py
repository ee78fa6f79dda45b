"""Tests of connectors, secrets, files and doors."""
