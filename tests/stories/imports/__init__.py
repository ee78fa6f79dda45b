"""Stories of projects that come from other tools."""
