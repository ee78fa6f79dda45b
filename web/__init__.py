"""Base classes and functions of pages, API routes and sockets."""
