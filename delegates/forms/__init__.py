"""Forms of the pages of delegates."""
