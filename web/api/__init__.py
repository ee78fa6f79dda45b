"""web/api."""
