"""`python -m ops`: what `make run` calls."""

import os
import sys

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

# The settings are read on import, so the line above comes first.
from ops.supervisor import main

sys.exit(main())
