"""Pages of this installation."""
