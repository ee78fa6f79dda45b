"""Command line of Slipway, a client of its REST API."""
