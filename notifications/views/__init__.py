"""Pages of notification rules."""
