"""The engine: one look at a time moves an execution on (docs/contributing/engine.md)."""
