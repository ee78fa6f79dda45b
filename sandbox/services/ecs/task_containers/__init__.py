"""Containers of ECS tasks: their local processes, log streams and secret values."""
