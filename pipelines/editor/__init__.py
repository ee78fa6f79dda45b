"""Pipeline editor: form and tree edits, outline, graph and suggestions."""
