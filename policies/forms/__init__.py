"""Forms of policy rules."""
