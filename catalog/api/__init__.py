"""REST routes of services, environments, infrastructures, overrides and effective manifests."""
