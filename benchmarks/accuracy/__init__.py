"""How far figures are from the exact ones, and whether their bounds hold."""
