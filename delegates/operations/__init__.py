"""Everything that a person can do to delegates; page, API and admin all call these."""
