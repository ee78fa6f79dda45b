"""Routes of policy rules."""
