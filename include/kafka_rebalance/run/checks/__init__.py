"""What forbids a write. Pure: each rule sees values, and no server."""
