"""What a run would do, told before it does it."""
