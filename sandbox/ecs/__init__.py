"""Amazon ECS: the back end that moto lacks, from validation to the service scheduler."""
