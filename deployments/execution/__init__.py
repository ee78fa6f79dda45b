"""deployments/execution."""
