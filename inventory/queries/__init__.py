"""Queries of the inventory."""
