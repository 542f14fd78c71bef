"""All errors, sorted into retry and stop.

Exceptions (for the caller of a Lycosa function)::

    LycosaError
     +-- UsageError            the call or the configuration is wrong        exit code 2
     |    +-- ConfigError      a setting is wrong: names file, line, key
     |    |    +-- SettingsRefused  a worker process cannot work with its settings
     |    +-- UrlError         a URL cannot be parsed; ``reason`` is counted
     |    +-- NameTaken        another watch has the name
     +-- WorkError             the work failed                               exit code 1
          +-- WorkspaceError   missing, damaged, of another format
          |    +-- OwnedError  another process crawls in this workspace
          |    +-- NewerError  written by a newer version: upgrade
          |    +-- ClaimLost   superseded by a later claim: drop the work and stop
          +-- EncoderError     the encoder of vectors failed; its server did not answer
          +-- StorageError     S3 or HDFS failed or did not answer; an OSError too
          +-- ArchiveError     a WARC file cannot be read

Outcomes are counted, not raised: `FetchError`, with `retry` for another attempt in this crawl;
`Refusal`, why a URL was not admitted; `Exclusion`, why an admitted URL was stopped.
"""

from __future__ import annotations

from enum import StrEnum


class LycosaError(Exception):
    """Base of all errors that Lycosa raises.

    The message contains the problem, its place, and the remedy.
    """

    exit_code = 1


class UsageError(LycosaError):
    """The call or the configuration is wrong; nothing was done."""

    exit_code = 2


class ConfigError(UsageError):
    """A setting is unknown or out of bounds."""


class SettingsRefused(ConfigError):
    """A started worker process cannot work with the settings it was given."""


_URL_PROBLEMS = {
    "unparsable": "it is not a valid URL",
    "scheme": "only http, https, ftp and gopher URLs are crawled",
    "too_long": "the URL is too long",
}


class UrlError(UsageError):
    """A URL that cannot be used. `reason` is counted."""

    def __init__(self, reason: Refusal, url: str) -> None:
        super().__init__(f"{url!r} cannot be used: {_URL_PROBLEMS.get(reason.value, reason.value)}")
        self.reason = reason
        self.url = url


class NameTaken(UsageError):
    """Another watch has the name."""


class WorkError(LycosaError):
    """The work was started and failed."""


class EncoderError(WorkError):
    """The encoder of vectors failed, or its server did. Searches continue by words."""


class WorkspaceError(WorkError):
    """A workspace is missing, damaged, or of an unknown format."""


class OwnedError(WorkspaceError):
    """Another living process crawls in this workspace."""


class NewerError(WorkspaceError):
    """A newer version of Lycosa wrote the data. Nothing is damaged."""


class ClaimLost(WorkspaceError):
    """A later claim supersedes this one; uncommitted work was dropped."""


class StorageError(WorkError, OSError):
    """Remote storage failed, or its response was lost. Never contains a credential."""


class ArchiveError(WorkError):
    """A WARC file or record cannot be read."""


class FetchError(StrEnum):
    """Why an exchange gave no complete response; the value of `visits.error`."""

    DNS = "dns"  # the name does not resolve now
    NAME_UNKNOWN = "name_unknown"  # there is no such name
    CONNECT_REFUSED = "connect_refused"
    CONNECT_TIMEOUT = "connect_timeout"
    CONNECT = "connect"  # unreachable network, reset while connecting, …
    TLS = "tls"  # handshake failed
    TLS_CERTIFICATE = "tls_certificate"  # not trusted, expired, wrong name
    FIRST_BYTE_TIMEOUT = "first_byte_timeout"
    TIMEOUT = "timeout"  # total time
    TOO_SLOW = "too_slow"  # slow drip
    RESET = "reset"  # connection reset while sending or receiving
    EMPTY_REPLY = "empty_reply"  # closed before the first byte
    INCOMPLETE = "incomplete"  # body shorter than announced, or a chunk is broken
    HEADERS_TOO_LARGE = "headers_too_large"
    BAD_HTTP = "bad_http"  # not an HTTP response, HTTP/0.9, garbage before the status line
    BAD_ENCODING = "bad_encoding"  # Content-Encoding does not decode
    HTTP2 = "http2"  # stream or framing error
    ADDRESS_REFUSED = "address_refused"  # refused by the address guard
    BAD_REDIRECT = "bad_redirect"  # a redirect status without a usable Location
    UNSUPPORTED_SCHEME = "unsupported_scheme"
    INTERRUPTED = "interrupted"  # stopped by the crawler
    PARSE_CRASHED = "parse_crashed"  # the page killed the parser
    LOGGED_OUT = "logged_out"  # the page indicates that the session is not logged in
    INTERNAL = "internal"  # an unknown error of libcurl

    @property
    def retry(self) -> bool:
        """Whether another attempt in this crawl may help."""
        return self in _RETRY


_RETRY = frozenset(
    {
        FetchError.DNS,
        FetchError.CONNECT_REFUSED,
        FetchError.CONNECT_TIMEOUT,
        FetchError.CONNECT,
        FetchError.FIRST_BYTE_TIMEOUT,
        FetchError.TIMEOUT,
        FetchError.TOO_SLOW,
        FetchError.RESET,
        FetchError.EMPTY_REPLY,
        FetchError.INCOMPLETE,
        FetchError.HTTP2,
        FetchError.INTERRUPTED,
        FetchError.LOGGED_OUT,
        FetchError.INTERNAL,
    }
)

BUSY_STATUSES = frozenset({429, 502, 503, 504, 508, 509, *range(520, 531)})
"""HTTP statuses of a host that is overloaded or down. 508 and 509 are those of web hosters for
exceeded limits, 520 to 530 those of Cloudflare for an unavailable server.
"""

RETRY_STATUSES = BUSY_STATUSES | {408, 425, 500}
"""HTTP statuses after which another attempt may help (RFC 9110 section 15; RFC 6585 section 4; RFC
8470).
"""


class Refusal(StrEnum):
    """Why a link or a submitted URL was not admitted; counted per reason, not stored."""

    UNPARSABLE = "unparsable"
    SCHEME = "scheme"  # not http or https: mailto:, javascript:, data: …
    TOO_LONG = "too_long"
    SCOPE = "scope"
    DEPTH = "depth"
    NOFOLLOW = "nofollow"
    KEY_COLLISION = "key_collision"  # another URL has the same 64-bit key
    PATTERN = "pattern"  # allow / deny expressions


class Exclusion(StrEnum):
    """Why an admitted URL was stopped; the value of `urls.reason` in state `excluded`."""

    ROBOTS = "robots"
    SCOPE = "scope"
    DEPTH = "depth"
    PATTERN = "pattern"  # allow / deny expressions
    SCHEME = "scheme"
    TOO_LONG = "too_long"
    REDIRECT_LIMIT = "redirect_limit"
    ADDRESS = "address_refused"
    OPERATOR = "excluded"  # the operator's list, or `lycosa exclude`
    OPERATION = "operation_over"  # the operation on the page was cancelled
    PARSE_CRASHED = "parse_crashed"
