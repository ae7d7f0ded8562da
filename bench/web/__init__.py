"""What the pages cost, in a browser."""
