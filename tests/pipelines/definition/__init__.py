"""Tests of the schema, the parser and the checks of pipelines."""
