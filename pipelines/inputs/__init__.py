"""Inputs of runs: variables of pipelines and input sets."""
