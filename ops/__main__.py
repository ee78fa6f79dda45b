"""Entry point of `python -m ops`, which `make run` calls."""

import os
import signal
import sys

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

# The settings are read on import, so the line above comes first.
from ops.supervision.child_process import build_death_signal_hook
from ops.supervision.supervisor import main

# Files of this process and its programs are private to this user.
os.umask(0o077)
if "--ends-with-parent" in sys.argv:
    build_death_signal_hook(os.getppid(), signal.SIGTERM)()
sys.exit(main())
