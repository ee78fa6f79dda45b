"""Tests of actions."""
