"""REST API of this installation."""
