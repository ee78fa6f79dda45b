"""The ASGI application: HTTP by Django, WebSockets by Channels."""

import faulthandler
import os
import signal

from django.conf import settings
from django.core.asgi import get_asgi_application

from config.databases import hold_open

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
# Only here: the web server has many threads and never forks. A Celery child has one thread, Celery closes its
# pool after each task, and what a parent opened before a fork must not be shared.
settings.DATABASES["default"]["OPTIONS"].update(settings.WEB_DATABASE_OPTIONS)
_held_open = hold_open(settings.DATABASES["default"])
http = get_asgi_application()

# Consumers import models, which need the apps that the line above sets up.
from channels.routing import ProtocolTypeRouter  # noqa: E402

from config.urls import websocket_routes  # noqa: E402
from delegates.protocol.door import AgentDoor, AgentSocketDoor  # noqa: E402
from web.front_door import FrontDoor  # noqa: E402
from web.garbage import ClearedAfterwards, look_seldom  # noqa: E402
from web.sockets import OriginValidator, SessionOfSocket, SocketGuard  # noqa: E402

application = ProtocolTypeRouter(
    {
        "http": FrontDoor(AgentDoor(ClearedAfterwards(http))),
        "websocket": SocketGuard(AgentSocketDoor(OriginValidator(SessionOfSocket(websocket_routes)))),
    }
)

look_seldom()
# Sent by the supervisor to a process that no longer answers: its log then says where it was stuck.
faulthandler.register(signal.SIGUSR1)
