"""Deployments that run through agents: real processes, killed and handed over."""
