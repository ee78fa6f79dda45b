"""Pages of executions, approvals, freeze windows and previews."""
