"""Pages of delegates, one module per noun."""
