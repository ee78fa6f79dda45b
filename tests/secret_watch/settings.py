"""The product's settings as they are, for an installation that a test starts and has watched."""

from config.settings import *  # noqa: F403
from config.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.secret_watch"]
