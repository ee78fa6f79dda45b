"""accounts/queries."""
