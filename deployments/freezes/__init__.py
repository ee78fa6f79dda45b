"""deployments/freezes."""
