"""The pages of what runs where."""
