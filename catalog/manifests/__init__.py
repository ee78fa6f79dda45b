"""Manifests: parsing, merging, validation, and stores."""
