"""Kinds of triggers, one file each, which register themselves."""
