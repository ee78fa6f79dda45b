"""The REST routes of delegates and of the doors that they open, one file per noun."""
