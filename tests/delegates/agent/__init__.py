"""Tests of the agent, a program of its own."""
