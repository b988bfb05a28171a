"""How many events a second, and what each part costs."""
