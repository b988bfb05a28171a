"""One partition's keys over several engines: its records are judged once, then each has a share."""
