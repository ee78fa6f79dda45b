"""The REST routes of connectors, secrets and files, one file per noun."""
