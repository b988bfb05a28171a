"""Sources in other formats than plain JSON: each record is translated into JSON with the same
content.
"""
