"""Rules that AWS enforces beyond botocore's models (AWS.md A.8, C.3)."""
