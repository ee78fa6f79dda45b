"""Drift detection: comparison of running ECS services with their last deployment."""
