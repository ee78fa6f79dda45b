"""The actions of a blue/green deployment; importing this package knows all of them."""

from steps.actions.blue_green import create, downsize, green, pair, scaling, steady, swap, tags, target_groups

__all__ = ["create", "downsize", "green", "pair", "scaling", "steady", "swap", "tags", "target_groups"]
