"""Tests of the execution log."""
