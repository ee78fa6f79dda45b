"""What a run would do: the real actions of every step, with reads sent to AWS and writes written down."""
