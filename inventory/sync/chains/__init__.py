"""Chains of calls that only read: what keeps the pictures of clusters in step, whatever they tell."""
