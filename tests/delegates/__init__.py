"""Tests of delegates."""
