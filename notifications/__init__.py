"""Tells programs that people chose of what happened: rules, an outbox, and what sends it."""
