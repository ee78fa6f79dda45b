"""Amazon ECS, from validation to the service scheduler, which moto lacks."""
