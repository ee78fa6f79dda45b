"""notifications/channels."""
