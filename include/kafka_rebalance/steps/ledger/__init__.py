"""What runs leave for later ones: the ledger's tables, and the time estimate that comes from them."""
