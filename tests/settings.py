"""The product's settings with a state folder of their own and, for plain tests, no broker."""

import atexit
import os
import shutil
import tempfile


def _throwaway_home() -> str:
    path = tempfile.mkdtemp(prefix="slipway-tests-")
    owner = os.getpid()
    # Parallel test processes inherit the folder; only the one that made it may take it away.
    atexit.register(lambda: shutil.rmtree(path, ignore_errors=True) if os.getpid() == owner else None)
    return path


# The state of a developer's own `make run` is never read or written by a test.
if "SLIPWAY_TESTS_HOME" not in os.environ:
    os.environ["SLIPWAY_TESTS_HOME"] = _throwaway_home()
os.environ["SLIPWAY_HOME"] = os.environ["SLIPWAY_TESTS_HOME"]

from config.settings import *  # noqa: E402, F403
from config.settings import DATABASES, HOME, INSTALLED_APPS, STATIC_ROOT, STORAGES  # noqa: E402

# First: of two commands of one name, that of the earlier app counts, and `ops` has a `migrate` too.
INSTALLED_APPS = ["tests.database", *INSTALLED_APPS, "tests.secret_watch"]

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# Processes that stories start are given a broker; everything else stays inside the test process.
if not os.environ.get("REDIS_URL"):
    CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
    CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    CELERY_BROKER_URL = "memory://"

# Fuzzing asks more often than any caller may; tests of the limit set their own.
API_REQUESTS_PER_MINUTE = 10_000_000

# Pages are rendered without collecting static files first.
STATIC_ROOT.mkdir(parents=True, exist_ok=True)
WHITENOISE_USE_FINDERS = True
# Whatever somebody has built, no test finds; those of the documentation make their own.
DOCUMENTATION_ROOT = HOME / "site"
STORAGES = {**STORAGES, "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}

_database = DATABASES["default"]
if _database["ENGINE"].endswith("sqlite3"):
    # A file, as in the product: threads, forked workers and child processes all see the same database.
    _database["TEST"] = {"NAME": str(HOME / "test.sqlite3")}
else:
    # A test process may wait longer for its next test, inside the transaction of a class or module.
    _database["OPTIONS"]["options"] = "-c idle_in_transaction_session_timeout=0"
    # Migrated once for all test processes of a run (tests/postgres.py).
    if _template := os.environ.get("SLIPWAY_TESTS_TEMPLATE"):
        _database["TEST"] = {"TEMPLATE": _template}
