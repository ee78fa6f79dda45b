"""Long run of a whole installation with faults, and the checker of its history."""
