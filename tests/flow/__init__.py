"""Late expressions, conditions, groups and parallel steps."""
