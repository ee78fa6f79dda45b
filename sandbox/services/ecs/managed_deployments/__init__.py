"""Deployments that ECS runs to their end itself: stages, traffic, hooks, alarms, descriptions."""
