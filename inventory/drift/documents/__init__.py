"""Documents of ECS services and their comparison, without Django and without AWS calls."""
