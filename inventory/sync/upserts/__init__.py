"""Upserts of AWS responses: rows are inserted, or updated where something changed."""
