"""Template tags of the overview."""
