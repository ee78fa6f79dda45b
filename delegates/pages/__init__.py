"""The pages of delegates, one file per noun."""
