"""web/http."""
