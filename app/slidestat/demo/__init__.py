"""The demo: real flights through a real broker and two workers, every figure checked."""
