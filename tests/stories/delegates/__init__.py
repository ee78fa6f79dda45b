"""Delegates made by their own specs, and what agents survive, told with real processes."""
