"""Limits and checks of input, safe outgoing HTTP, masking of secrets, set-up of processes; no framework."""
