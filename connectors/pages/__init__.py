"""The pages of connectors, secrets and files, one file per noun."""
