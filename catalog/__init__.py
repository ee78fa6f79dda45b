"""Services, environments, infrastructures, overrides, manifests and artifacts."""
