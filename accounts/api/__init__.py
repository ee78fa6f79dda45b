"""REST API of access control."""
