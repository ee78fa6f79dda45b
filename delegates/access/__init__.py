"""delegates/access."""
