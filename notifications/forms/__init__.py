"""Forms of notification rules."""
