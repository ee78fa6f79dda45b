"""REST API of the inventory."""
