"""Forms of pipelines."""
