"""Tests of image sources and tags."""
