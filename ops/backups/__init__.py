"""Backups of the database, and what happens after one was restored."""
