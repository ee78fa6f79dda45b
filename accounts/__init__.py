"""The pages and routes of access: scopes, people, roles, keys, the audit trail."""
