"""Amazon ECS, from validation to the service scheduler; moto has none of its own."""
