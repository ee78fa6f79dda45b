"""REST routes of pipelines, their versions, input sets and expressions."""
