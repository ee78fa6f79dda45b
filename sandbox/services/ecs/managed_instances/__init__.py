"""Managed instances of ECS: their capacity providers and daemons."""
