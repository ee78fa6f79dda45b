"""Tests of the inventory."""
