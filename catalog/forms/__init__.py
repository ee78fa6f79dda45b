"""Forms of the catalog."""
