"""Pages of adoption and drift."""
