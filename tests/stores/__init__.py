"""Manifests that lie in Git and S3, deployed from real servers on loopback."""
