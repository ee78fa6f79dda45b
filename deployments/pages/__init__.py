"""The pages of deployments, one file per noun."""
