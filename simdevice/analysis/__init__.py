"""What can be read off a trace, a timeline or a run: differences, the gate, what is alive, stalls, occupancy,
utilisation. No report."""
