"""The REST routes of deployments, one file per noun."""
