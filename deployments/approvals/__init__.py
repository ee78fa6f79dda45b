"""deployments/approvals."""
