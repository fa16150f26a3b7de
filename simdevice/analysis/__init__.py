"""What can be read off a trace or a timeline: differences, the gate, what is alive, stalls. No machine, no report."""
