"""Where the local broker keeps what outlives a run: downloaded jars and log files."""

import os
import time
from pathlib import Path

from platformdirs import user_cache_dir

CACHE_ENV = "SLIDESTAT_CACHE_DIR"
_LOG_AGE_S = 7 * 24 * 3600


def cache_folder() -> Path:
    """Return the user's cache folder for slidestat, made if missing; SLIDESTAT_CACHE_DIR overrides
    it.
    """
    folder = Path(os.environ.get(CACHE_ENV) or user_cache_dir("slidestat")).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def log_folder() -> Path:
    """Return the folder for logs of brokers whose data is temporary; drops logs older than a week.

    The logs are not in the data's folder, because that is removed when the broker fails, which is
    when somebody wants to read the log.
    """
    folder = cache_folder() / "logs"
    folder.mkdir(exist_ok=True)
    oldest = time.time() - _LOG_AGE_S
    for log in folder.glob("*.log"):
        try:
            if log.stat().st_mtime < oldest:
                log.unlink()
        except FileNotFoundError:  # another process tidies up at the same time
            continue
    return folder
