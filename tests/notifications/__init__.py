"""What is told to whom: rules, the outbox, and a receiver that really listens."""
