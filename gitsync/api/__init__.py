"""Routes of Git syncs."""
