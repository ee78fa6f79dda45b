"""The sockets of the execution page."""

from channels.generic.websocket import AsyncJsonWebsocketConsumer


class ExecutionConsumer(AsyncJsonWebsocketConsumer):
    """One watcher of one execution."""

    async def connect(self) -> None:
        await self.close(code=4403)
