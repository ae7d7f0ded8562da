"""How kazoo connects and asks: what it lacks of what a large or secured ensemble needs."""
