"""Deployment strategies, step kinds and their actions, independent of the database."""
