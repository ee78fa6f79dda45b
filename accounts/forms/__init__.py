"""Forms of the pages of access control."""
