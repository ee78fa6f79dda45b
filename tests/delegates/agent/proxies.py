"""What stands between agents and their manager in companies: a proxy, and something that ends TLS."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tests.delegates.agent.certificates import Certificates

Target = tuple[str, int]


@contextmanager
def open_tunnel(
    accept: Callable[[socket.socket], tuple[socket.socket, bytes]], target: Target
) -> Iterator[int]:
    """Listen, start each connection with `accept`, forward bytes both ways, and yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve(connection: socket.socket) -> None:
            with suppress(OSError), connection:
                client_socket, first = accept(connection)
                with client_socket, socket.create_connection(target) as target_socket:
                    target_socket.sendall(first)
                    return_thread = threading.Thread(
                        target=_forward, args=(target_socket, client_socket), daemon=True
                    )
                    return_thread.start()
                    _forward(client_socket, target_socket)
                    return_thread.join()

        def listen() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    threading.Thread(target=serve, args=(connection,), daemon=True).start()

        threading.Thread(target=listen, daemon=True).start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)


def _forward(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextmanager
def start_proxy(target: Target, requests: list[str]) -> Iterator[int]:
    """Run a proxy to one target that records the head of each connection."""

    def accept_request(connection: socket.socket) -> tuple[socket.socket, bytes]:
        request_head = b""
        while b"\r\n\r\n" not in request_head:
            request_head += connection.recv(65_536)
        requests.append(request_head.decode("latin-1"))
        if not request_head.startswith(b"CONNECT "):
            return connection, request_head
        connection.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
        return connection, b""

    with open_tunnel(accept_request, target) as port:
        yield port


@contextmanager
def terminate_tls(target: Target, certificates: Certificates) -> Iterator[int]:
    """Accept TLS as localhost, and forward plain text to the target."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server)
    with open_tunnel(
        lambda connection: (context.wrap_socket(connection, server_side=True), b""), target
    ) as port:
        yield port
