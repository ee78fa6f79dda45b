"""Routes of adoption and drift."""
