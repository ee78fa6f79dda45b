"""How Slipway is started, watched and shown: supervisor, health, demo."""
