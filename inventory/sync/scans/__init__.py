"""Scans of clusters: resumable series of read-only AWS calls."""
