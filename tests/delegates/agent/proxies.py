"""What stands between agents and their manager in companies: a proxy, and something that ends TLS."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tests.delegates.agent.certificates import Certificates

Target = tuple[str, int]


@contextmanager
def tunnel(take: Callable[[socket.socket], tuple[socket.socket, bytes]], to: Target) -> Iterator[int]:
    """Listen, let `take` begin each connection, and pass bytes both ways; the port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve(connection: socket.socket) -> None:
            with suppress(OSError), connection:
                ours, first = take(connection)
                with ours, socket.create_connection(to) as theirs:
                    theirs.sendall(first)
                    back = threading.Thread(target=_pass, args=(theirs, ours), daemon=True)
                    back.start()
                    _pass(ours, theirs)
                    back.join()

        def listen() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    threading.Thread(target=serve, args=(connection,), daemon=True).start()

        threading.Thread(target=listen, daemon=True).start()
        yield int(listening.getsockname()[1])
        listening.shutdown(socket.SHUT_RDWR)


def _pass(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextmanager
def proxy(to: Target, asked: list[str]) -> Iterator[int]:
    """A proxy that leads everybody to one place and keeps the first line of each connection."""

    def take(connection: socket.socket) -> tuple[socket.socket, bytes]:
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(65_536)
        asked.append(head.decode("latin-1"))
        if not head.startswith(b"CONNECT "):
            return connection, head
        connection.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
        return connection, b""

    with tunnel(take, to) as port:
        yield port


@contextmanager
def tls_end(to: Target, certificates: Certificates) -> Iterator[int]:
    """TLS as localhost, plain behind it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server)
    with tunnel(lambda connection: (context.wrap_socket(connection, server_side=True), b""), to) as port:
        yield port
