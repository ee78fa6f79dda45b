"""Delegates and their doors: who makes the calls that a deployment asks for."""
