"""Limits and checks on untrusted input, safe outgoing HTTP, and masking of secrets; no framework."""
