"""A step kind as an extension adds it to `steps/kinds`."""
