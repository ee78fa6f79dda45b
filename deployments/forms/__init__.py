"""The forms of the pages of deployments, one file per noun."""
