"""How people come in and stay in: sign-in, second factor, single sign-on, sessions, passwords."""
