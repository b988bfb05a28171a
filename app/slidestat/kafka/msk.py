"""Tokens for the brokers of Amazon MSK, which are addresses signed with AWS's credentials.

To every client of ours MSK's IAM is the mechanism OAUTHBEARER with such a token. Credentials are
those that AWS's own tools find: variables, profiles, web identities, the role of a machine.
"""

import os
import threading
import time
from functools import cache

from slidestat.errors import SlidestatError
from slidestat.extras import module_of_extra
from slidestat.redaction import keep_secret, redacted

# A token ends after 15 minutes, and with the credentials that it was signed with, of which nothing
# is known here: AWS has new ones for a machine at least 5 minutes before the old ones end.
_LIFE_S = 300.0
# Clients that are made together share one. A client that renews its token gets another one.
_SHARED_S = 30.0

_SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


class MskSigner:
    """A signer of tokens for the brokers of a region; used from any thread."""

    def __init__(self, region: str) -> None:
        """Take up the packages; raises SlidestatError without them."""
        self._region = region
        package = "aws_msk_iam_sasl_signer.MSKAuthTokenProvider"
        self._provider = module_of_extra(package, "AWS_MSK_IAM", "msk")
        errors = module_of_extra("botocore.exceptions", "AWS_MSK_IAM", "msk").BotoCoreError
        # Without any credentials botocore raises no error of its own, but there is nothing to take
        # a key of.
        self._errors = (errors, AttributeError, ValueError, OSError)
        self._lock = threading.Lock()
        self._token, self._signed_at = "", -_LIFE_S
        for name in _SECRETS:
            keep_secret(os.environ.get(name))

    def token(self) -> tuple[str, float]:
        """Return a token, and when it ends by the clock, in seconds; raises SlidestatError where
        AWS has no credentials for it.
        """
        with self._lock:
            if time.time() >= self._signed_at + _SHARED_S:
                try:
                    self._token, _ = self._provider.generate_auth_token(self._region)
                except self._errors as error:
                    absent = isinstance(error, AttributeError)
                    why = "there are none" if absent else redacted(str(error)).rstrip(".")
                    raise SlidestatError(
                        f"No token for MSK was signed with credentials of AWS: {why}.",
                        "Give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or a role"
                        " to the machine or the pod: `aws sts get-caller-identity` shows whose"
                        " they are.",
                    ) from error
                self._signed_at = time.time()
            return self._token, self._signed_at + _LIFE_S


msk_signer = cache(MskSigner)
"""The process's signer for a region."""
