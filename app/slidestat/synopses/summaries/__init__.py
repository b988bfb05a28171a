"""What one window leaves behind, as bytes that merge into longer windows."""
