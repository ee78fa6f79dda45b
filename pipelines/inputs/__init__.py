"""Variables and input sets of pipelines."""
