"""Inventory of the ECS services and tasks that run, with drift, adoption and dashboards."""
