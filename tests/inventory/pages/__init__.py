"""Tests of the pages of the inventory."""
