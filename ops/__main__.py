"""`python -m ops`: what `make run` calls; with --ends-with-parent it ends when make is killed."""

import os
import signal
import sys

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

# The settings are read on import, so the line above comes first.
from ops.child import die_with_parent
from ops.supervisor import main

# What this process and its programs write is for nobody else on this machine.
os.umask(0o077)
if "--ends-with-parent" in sys.argv:
    die_with_parent(os.getppid(), signal.SIGTERM)()
sys.exit(main())
