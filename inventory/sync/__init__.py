"""What runs where: the ECS services and tasks behind infrastructures, as AWS last showed them."""
