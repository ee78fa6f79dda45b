"""Tests of the call journal: rate limits, shared reads, calls through delegates."""
