"""The watermark passes ticks: events go into states, states into emissions."""
