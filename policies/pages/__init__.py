"""Pages of policy rules."""
