"""A pipeline with every feature, while whoever works on it dies."""
