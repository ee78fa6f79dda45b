"""Tests of the HTTP and socket plumbing."""
