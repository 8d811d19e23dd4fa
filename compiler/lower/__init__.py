"""From TOSA operators to layers: what runs as one pass of the machine, and the micro-program it carries."""
