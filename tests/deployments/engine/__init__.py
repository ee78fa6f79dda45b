"""Tests of the engine: reconcile passes, leases, service locks, crashes."""
