"""Command line arguments of the sandbox."""

import shlex
from argparse import ArgumentParser, Namespace
from pathlib import Path

from sandbox.server import SandboxOptions


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--state", type=Path, help="folder in which the account is kept between runs")
    parser.add_argument("--speed", type=float, default=1.0, help="sandbox seconds per real second")
    parser.add_argument("--paused", action="store_true", help="let time stand until it is moved by hand")
    parser.add_argument("--ends-with-stdin", action="store_true", help="end when standard input is closed")
    parser.add_argument(
        "--delegate-command",
        default="",
        help="what a container of the delegate's image runs; by default the agent of this checkout",
    )


def build_options(arguments: Namespace) -> SandboxOptions:
    return SandboxOptions(
        port=arguments.port,
        state=arguments.state,
        speed=arguments.speed,
        paused=arguments.paused,
        ends_with_stdin=arguments.ends_with_stdin,
        delegate_command=tuple(shlex.split(arguments.delegate_command)),
    )
