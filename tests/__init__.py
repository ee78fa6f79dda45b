"""Tests of Slipway; the folders mirror the packages."""
