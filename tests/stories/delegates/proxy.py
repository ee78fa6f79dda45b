"""A network between agents and their manager that can be cut."""

import contextlib
import socket
from collections.abc import Iterator
from threading import Lock, Thread

CHUNK = 65536


class Proxy:
    """Passes bytes on both ways, unless it is cut, or bars what is no plain request."""

    def __init__(self, target_port: int) -> None:
        self._target = ("127.0.0.1", target_port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = Lock()
        self._open: set[socket.socket] = set()
        self._is_cut = False
        self._bars_sockets = False
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Drop every connection, and every new one."""
        self._is_cut = True
        self._drop_all()

    def bar_sockets(self) -> None:
        """Drop every connection; from now on no WebSocket gets through, as behind some firewalls."""
        self._bars_sockets = True
        self._drop_all()

    def mend(self) -> None:
        """Restore the connection."""
        self._is_cut = self._bars_sockets = False

    def close(self) -> None:
        self.cut()
        self._listener.close()

    def _drop_all(self) -> None:
        with self._lock:
            dropped, self._open = self._open, set()
        for connection in dropped:
            _hang_up(connection)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                caller, _ = self._listener.accept()
                Thread(target=self._serve, args=(caller,), daemon=True).start()

    def _serve(self, caller: socket.socket) -> None:
        manager: socket.socket | None = None
        try:
            first = caller.recv(CHUNK)
            if self._is_cut or (self._bars_sockets and b"upgrade: websocket" in first.lower()):
                return
            manager = socket.create_connection(self._target)
            with self._lock:
                self._open |= {caller, manager}
            manager.sendall(first)
            Thread(target=self._pass_on, args=(manager, caller), daemon=True).start()
            self._pass_on(caller, manager)
        except OSError:
            # The other end notices the missing connection.
            return
        finally:
            for connection in (caller, manager):
                if connection is not None:
                    _hang_up(connection)

    def _pass_on(self, giver: socket.socket, taker: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := giver.recv(CHUNK):
                taker.sendall(data)
        for connection in (giver, taker):
            _hang_up(connection)
        with self._lock:
            self._open -= {giver, taker}


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


@contextlib.contextmanager
def proxied(port: int) -> Iterator[Proxy]:
    """A proxy to a port of this machine until the block ends."""
    proxy = Proxy(port)
    try:
        yield proxy
    finally:
        proxy.close()
