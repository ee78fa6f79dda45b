"""Who may do what, where: scopes, users, roles, assignments, API keys and the audit trail."""
