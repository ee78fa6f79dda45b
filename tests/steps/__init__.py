"""Tests of strategies, step kinds, actions and expressions."""
