"""Times of events: how they are written, and the windows that a calendar makes of them."""
