"""`python -m faults`: real faults on real brokers while an approved plan runs. See docs/evidence/faults.md."""
