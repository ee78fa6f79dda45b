"""Pages of services, environments and infrastructures."""
