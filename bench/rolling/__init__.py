"""How long plans take on paper, if moves are added as others end."""
