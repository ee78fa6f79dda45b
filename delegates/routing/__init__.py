"""delegates/routing."""
