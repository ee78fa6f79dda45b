"""Previews of runs: real actions with reads sent to AWS and writes recorded."""
