"""`python -m sandbox`: the pretend AWS account without Django around it."""

from argparse import ArgumentParser

from sandbox.arguments import add_arguments, options_of
from sandbox.server import serve

if __name__ == "__main__":
    parser = ArgumentParser(prog="sandbox", description="A pretend AWS account on loopback.")
    add_arguments(parser)
    serve(options_of(parser.parse_args()))
