"""The agent's own log: delegate.log in its home, and standard output."""

import logging
import sys
from pathlib import Path

NAME = "delegate.log"


def log_to(home: Path) -> None:
    """Send what this process logs to delegate.log and to standard output."""
    form = logging.Formatter("%(asctime)s %(levelname)s %(threadName)s %(message)s")
    logger = logging.getLogger("slipway.delegate")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    for handler in (logging.StreamHandler(sys.stdout), logging.FileHandler(home / NAME, encoding="utf-8")):
        handler.setFormatter(form)
        logger.addHandler(handler)
