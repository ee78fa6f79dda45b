"""Tests of the catalog: services, environments, manifests, artifacts, overrides."""
