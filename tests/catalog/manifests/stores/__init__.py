"""Tests of manifest stores, with deployments from real servers on loopback."""
