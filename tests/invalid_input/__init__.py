"""Bad input at every door: pages, API, admin, sockets, expressions."""
