"""The forms of the pages of connectors, secrets and files, one file per noun."""
