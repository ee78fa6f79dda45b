"""ASGI application: HTTP by Django, WebSockets by Channels."""

import faulthandler
import gc
import os
import signal

from django.conf import settings
from django.core.asgi import get_asgi_application

from config.databases import keep_sqlite_open
from config.telemetry import start_web_tracing
from guards.heap import limit_heaps

limit_heaps()
# What is imported stays. `configure_garbage_collection` ends this.
gc.disable()
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
# Only here: the web server has many threads and never forks. A Celery child has one thread, Celery closes its
# pool after each task, and what a parent opened before a fork must not be shared.
settings.DATABASES["default"]["OPTIONS"].update(settings.WEB_DATABASE_OPTIONS)
start_web_tracing()
_sqlite_connection = keep_sqlite_open(settings.DATABASES["default"])
http = get_asgi_application()

# Consumers import models, which need the apps that the line above sets up.
from channels.routing import ProtocolTypeRouter  # noqa: E402
from django.urls import reverse  # noqa: E402

from config.urls import websocket_routes  # noqa: E402
from delegates.protocol.asgi import AgentHttpApplication, AgentSocketApplication  # noqa: E402
from ops.processes import WebLifeSigns  # noqa: E402
from web.http.asgi_limits import RequestLimits  # noqa: E402
from web.http.gc_tuning import GarbageCollectionMiddleware, configure_garbage_collection  # noqa: E402
from web.http.static_files import require_static_files  # noqa: E402
from web.live.socket_middleware import OriginValidator, SocketLimits, SocketSessionMiddleware  # noqa: E402

if not settings.EMBEDDED:
    require_static_files()
application = ProtocolTypeRouter(
    {
        "http": RequestLimits(AgentHttpApplication(GarbageCollectionMiddleware(http))),
        "websocket": SocketLimits(
            AgentSocketApplication(OriginValidator(SocketSessionMiddleware(websocket_routes)))
        ),
        "lifespan": WebLifeSigns(),
    }
)

# Builds the table of all routes, which would otherwise be left for the first page.
reverse("docs")
configure_garbage_collection()
# The supervisor sends it to an unresponsive process, whose log then shows the stack.
faulthandler.register(signal.SIGUSR1)
