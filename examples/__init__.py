"""Networks of our own, trained and quantized by scripts of the project."""
