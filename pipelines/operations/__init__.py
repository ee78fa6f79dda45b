"""What people can do with pipelines."""
