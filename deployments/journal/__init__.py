"""deployments/journal."""
