"""Entry point of `python -m sandbox`, without Django."""

from argparse import ArgumentParser

from sandbox.server import add_arguments, build_options, serve

if __name__ == "__main__":
    parser = ArgumentParser(prog="sandbox", description="A simulated AWS account on loopback.")
    add_arguments(parser)
    serve(build_options(parser.parse_args()))
