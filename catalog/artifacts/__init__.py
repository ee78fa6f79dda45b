"""Images: their sources and tags."""
