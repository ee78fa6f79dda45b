"""Routes of notification rules."""
