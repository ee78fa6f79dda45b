"""The forms of pages of delegates, one file per noun."""
