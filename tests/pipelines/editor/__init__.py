"""Tests of the visual editor of pipelines."""
