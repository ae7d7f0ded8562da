"""What is done to a rebalance that runs or ran: stopped, cancelled, throttled, rolled back; and to a stuck request."""
