"""REST API of the catalog."""
