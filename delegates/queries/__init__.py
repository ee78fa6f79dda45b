"""Reads of delegates with more than one caller."""
