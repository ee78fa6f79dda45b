"""Tests of approvals."""
