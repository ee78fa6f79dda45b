"""Tests of instance sync."""
