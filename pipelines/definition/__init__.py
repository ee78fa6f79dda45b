"""Definition of pipelines: schema, parser, checks, and lookup of referenced resources."""
