"""What S3 says when it refuses a request, as the exceptions that shardmill.transforms.stores.protocol promises."""

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError

MISSING = ("404", "NoSuchKey", "NoSuchBucket")
_NO_SUCH_RANGE = ("416", "InvalidRange")
# A HEAD has no code but its status. Other codes of a 403 (InvalidAccessKeyId, RequestTimeTooSkewed, …) are of who asks:
# https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
_FORBIDDEN = ("403", "AccessDenied")


def code_of(error: ClientError) -> str:
    """The store's word for an error."""
    return str(error.response.get("Error", {}).get("Code"))


@contextmanager
def errors(url: str) -> Iterator[None]:
    """Whatever boto3 raises about `url` within is raised as OSError, or one of its kinds."""
    try:
        yield
    except ClientError as error:
        if code_of(error) in MISSING:
            raise FileNotFoundError(f"{url}: not found") from error
        if code_of(error) in _NO_SUCH_RANGE:
            raise EOFError(f"{url}: {error}") from error
        raise (PermissionError if code_of(error) in _FORBIDDEN else OSError)(f"{url}: {error}") from error
    except BotoCoreError as error:
        raise OSError(f"{url}: {error}") from error
