"""What an installation of many processes does when one of them, its database or its broker dies."""
