"""Real faults on real brokers while an approved plan is executed: `python -m faults`, see docs/reliability.md."""
