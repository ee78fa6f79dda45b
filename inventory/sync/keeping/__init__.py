"""Keeps what AWS answered: rows made, changed where something changed, and ended where nothing is left."""
