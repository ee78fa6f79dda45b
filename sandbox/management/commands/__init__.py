"""Commands: `manage.py sandbox`."""
