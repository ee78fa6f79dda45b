"""Documents of ECS side by side: no framework, no call, only values."""
