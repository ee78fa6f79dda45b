"""sandbox/services."""
