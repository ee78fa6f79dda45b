"""Entry point of `python -m ops`, which `make run` calls."""

import os
import signal
import sys

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

# The settings are read on import, so the line above comes first.
from ops.child_process import build_death_signal_hook
from ops.supervisor import main

# What this process and its programs write is for nobody else on this machine.
os.umask(0o077)
if "--ends-with-parent" in sys.argv:
    build_death_signal_hook(os.getppid(), signal.SIGTERM)()
sys.exit(main())
