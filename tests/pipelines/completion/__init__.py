"""What expressions may name, listed for people and programs."""
