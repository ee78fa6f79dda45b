"""Manifests: parsing, merging, validation, and the stores that hold them."""
