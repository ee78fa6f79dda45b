"""aws/apis."""
