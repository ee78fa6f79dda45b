"""Tests of the pages of pipelines."""
