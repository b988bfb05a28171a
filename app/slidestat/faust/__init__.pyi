from slidestat.cli.attached_worker import attach as attach
