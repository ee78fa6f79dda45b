"""inventory/operations."""
