"""Instance sync: it reads ECS services and tasks of clusters into the database."""
