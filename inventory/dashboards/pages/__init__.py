"""Pages of the overview."""
