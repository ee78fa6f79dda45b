"""Dashboards of a scope and of a service, read from the tables of deployments and sync."""
