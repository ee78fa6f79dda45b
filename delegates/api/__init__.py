"""REST API of delegates, one module per noun."""
