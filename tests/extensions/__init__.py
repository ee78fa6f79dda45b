"""Extension points: a step kind and a manifest store, each added as one file."""
