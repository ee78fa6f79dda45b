"""An agent that slows its tasks down early, so that a test need not write as much as the product takes."""

import sys

from delegates.agent.__main__ import main
from delegates.agent.logs import spool

RATE, BURST = 256 * 1024, 256 * 1024

if __name__ == "__main__":
    spool.TASK_LOG_RATE, spool.TASK_LOG_BURST = RATE, BURST
    sys.exit(main())
