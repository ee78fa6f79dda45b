"""REST API of pipelines."""
