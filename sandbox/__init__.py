"""Emulated AWS account: moto with an ECS scheduler, as one local process."""
