"""Pages of access, one file per noun."""
