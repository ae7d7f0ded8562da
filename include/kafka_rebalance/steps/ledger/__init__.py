"""What runs leave for later ones: the ledger's tables, and what they tell about the next."""
