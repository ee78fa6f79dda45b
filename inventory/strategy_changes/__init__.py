"""inventory/strategy_changes."""
