"""web/forms."""
