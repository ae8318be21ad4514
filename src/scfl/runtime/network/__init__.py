"""Training across real machines: the protocol without a wire, and the stream that carries it."""
