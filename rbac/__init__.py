"""Access control: scopes, users, roles, assignments, API keys and the audit trail."""
