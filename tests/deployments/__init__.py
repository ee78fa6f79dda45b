"""Tests of executions of pipelines."""
