"""Sources in other formats than plain JSON: each record becomes the JSON that says the same."""
