"""Deployments of delegates to Amazon ECS by Slipway itself."""
