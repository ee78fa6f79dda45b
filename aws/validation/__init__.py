"""aws/validation."""
