"""Triggers: their kinds, deliveries, decisions and runs."""
