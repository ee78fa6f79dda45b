"""A pipeline run in a private sandbox that is filled with reads of the real cluster."""
