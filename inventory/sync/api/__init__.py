"""The REST API of what runs where."""
