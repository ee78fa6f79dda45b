"""Pages of access control and of a user's own account."""
