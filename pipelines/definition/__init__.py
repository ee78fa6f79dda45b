"""The YAML of a pipeline: its schema, parser and checks."""
