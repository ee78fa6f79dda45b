"""Tests of pipelines: definition, editor, completion, inputs."""
