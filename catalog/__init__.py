"""What is deployed and where to: services, environments, infrastructures, manifests, artifacts."""
