"""Template filters of the inventory."""
