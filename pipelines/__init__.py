"""What a run does, written as YAML or by form: pipelines, input sets, their checks and editors."""
