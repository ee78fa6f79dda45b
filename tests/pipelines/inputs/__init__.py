"""Tests of inputs of runs."""
