"""Watches every process of every test for planted secrets: no place may hold one."""
