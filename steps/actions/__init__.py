"""Actions that steps consist of; importing this package registers all of them."""

from steps.discovery import import_submodules

import_submodules(__name__)
