"""Definition of pipelines: schema, parser, checks, and lookup of what a definition names."""
