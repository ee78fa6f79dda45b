"""Git syncs: services, environments, pipelines and more that follow a folder of a Git repository."""
