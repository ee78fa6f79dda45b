"""Tests of Git syncs."""
