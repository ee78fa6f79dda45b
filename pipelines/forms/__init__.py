"""Forms of pipelines, input sets and infrastructures created in a stage."""
