"""Supervisor of an embedded Slipway: its programs, their processes, and liveness checks."""
