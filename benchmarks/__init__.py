"""Measurements, run by `make bench`: ratios to read, nothing is asserted on time."""
