"""Tests of changes of the strategy of running services."""
