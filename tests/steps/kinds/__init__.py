"""Tests of step kinds, run in front of the sandbox."""
