"""Authentication of people: passwords, second factor, single sign-on, sessions."""
