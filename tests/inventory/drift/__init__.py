"""Tests of drift detection."""
