"""Sources in formats other than plain JSON: records are translated into JSON of that content."""
