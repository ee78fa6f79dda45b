"""Tests of adoption of ECS services."""
