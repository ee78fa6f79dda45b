"""Operation of Slipway itself: supervisor, health checks, demo data."""
