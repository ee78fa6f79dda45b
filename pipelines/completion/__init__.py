"""What expressions may name: in a run with the values of now, in a text that is being written without."""
