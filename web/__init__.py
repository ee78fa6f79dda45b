"""What pages, routes and sockets share: requests, scopes, errors, lists and keys."""
