"""Pages of services, environments, infrastructures and overrides."""
