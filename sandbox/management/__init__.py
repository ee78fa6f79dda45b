"""The sandbox as a Django management command."""
