"""What counts in one place: variables and manifests with their overrides laid over them."""
