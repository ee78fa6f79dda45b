"""Every door × every built-in role × own, neighbouring and parent scopes, against one declared need."""
