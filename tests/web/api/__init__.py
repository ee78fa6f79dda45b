"""Tests of API plumbing: parameters, parsers, OpenAPI description."""
