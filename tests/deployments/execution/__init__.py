"""Tests of operations on executions: interventions, undo plan, leftovers, search."""
