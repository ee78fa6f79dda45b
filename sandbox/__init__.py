"""A pretend AWS account: moto with an ECS scheduler of our own, as one local process."""
