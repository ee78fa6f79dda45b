"""Secret managers, one module each; the registry imports them on first use."""
