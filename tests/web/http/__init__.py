"""Tests of HTTP plumbing."""
