"""Resources as YAML documents: export, comparison, and application."""
