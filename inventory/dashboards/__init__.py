"""What goes on and what runs where, as deployments and sync have written it; no tables of its own."""
