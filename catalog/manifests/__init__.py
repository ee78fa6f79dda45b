"""Manifests: read from a store, parsed with line numbers, checked before anything is written to AWS."""
