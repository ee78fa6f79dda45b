"""The search for planted secrets: after a story, none of their values may be found anywhere."""
