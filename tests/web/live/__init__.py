"""Tests of sockets and live pages."""
