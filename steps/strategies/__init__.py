"""Strategies that fill a stage with steps; importing this package registers all of them."""

from steps.discovery import import_submodules

import_submodules(__name__)
