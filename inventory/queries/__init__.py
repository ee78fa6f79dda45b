"""inventory/queries."""
