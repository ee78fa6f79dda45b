"""Stories of stacks."""
