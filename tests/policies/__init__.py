"""Policy rules: their conditions, and their pages and API."""
