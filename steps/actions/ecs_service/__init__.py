"""Actions on ECS services: create, update, count, tags, diagnosis, steady state."""
