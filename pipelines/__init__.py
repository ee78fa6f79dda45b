"""Pipelines: definition, editor, completion, inputs and versions."""
