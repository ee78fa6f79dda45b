"""Edits of managed resources in Slipway that become commits of a branch."""
