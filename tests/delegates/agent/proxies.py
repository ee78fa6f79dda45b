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
    """Listen, start each connection with `take`, forward bytes both ways, and yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve(connection: socket.socket) -> None:
            with suppress(OSError), connection:
                client_socket, first = take(connection)
                with client_socket, socket.create_connection(to) as target_socket:
                    target_socket.sendall(first)
                    back = threading.Thread(target=_pass, args=(target_socket, client_socket), daemon=True)
                    back.start()
                    _pass(client_socket, target_socket)
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
def proxy(to: Target, requests: list[str]) -> Iterator[int]:
    """Run a proxy to one target that records the head of each connection."""

    def take(connection: socket.socket) -> tuple[socket.socket, bytes]:
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(65_536)
        requests.append(head.decode("latin-1"))
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
