"""The engine: one look at a time moves an execution on (docs/decisions, DESIGN 5)."""
