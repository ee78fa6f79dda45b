"""inventory/adoption."""
