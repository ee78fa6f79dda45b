"""REST routes of executions, approvals, freeze windows, logs and previews."""
