"""Routes of access, one file per noun."""
