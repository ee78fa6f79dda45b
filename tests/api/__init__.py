"""Tests of the REST API as a whole."""
