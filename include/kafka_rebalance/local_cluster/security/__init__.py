"""TLS, users and rules of a local cluster."""
