"""Maps the result codes of libcurl transfers to `FetchError`."""

from __future__ import annotations

import errno

from lycosa.core.errors import FetchError

COULDNT_CONNECT = 7
UNSUPPORTED_PROTOCOL = 1
TIMED_OUT = 28
RECEIVE_ERROR = 56
TOO_LARGE_TEXT = "Too large response headers"
"""With it, RECEIVE_ERROR means libcurl's own limit of 300 KiB for all heads of one request."""

TLS_EOF_TEXT = "unexpected eof"
"""With it, RECEIVE_ERROR means a TLS connection that was closed without close_notify (RFC 9112
section 9.8), not reset.
"""

REPEATED_TEXT = "a reused connection was closed; the request was not repeated"
"""Text of a `reset` when libcurl was prevented from repeating a request."""

# Numbers, because pycurl does not name them all; https://curl.se/libcurl/c/libcurl-errors.html
CURL_ERRORS: dict[int, FetchError] = {
    1: FetchError.UNSUPPORTED_SCHEME,  # UNSUPPORTED_PROTOCOL; after the connection: HTTP/0.9
    # URL_MALFORMAT: URLs are normalised, so it is the host name that libcurl does not accept
    3: FetchError.DNS,
    5: FetchError.DNS,  # COULDNT_RESOLVE_PROXY: no proxies are used
    6: FetchError.DNS,  # COULDNT_RESOLVE_HOST
    7: FetchError.CONNECT,  # COULDNT_CONNECT; see `connect_error` for refused and guarded ones
    8: FetchError.BAD_HTTP,  # WEIRD_SERVER_REPLY
    10: FetchError.CONNECT,  # FTP_ACCEPT_FAILED: active mode is not used
    11: FetchError.BAD_HTTP,  # FTP_WEIRD_PASS_REPLY
    12: FetchError.CONNECT_TIMEOUT,  # FTP_ACCEPT_TIMEOUT
    13: FetchError.BAD_HTTP,  # FTP_WEIRD_PASV_REPLY
    14: FetchError.BAD_HTTP,  # FTP_WEIRD_227_FORMAT
    15: FetchError.DNS,  # FTP_CANT_GET_HOST
    16: FetchError.HTTP2,  # HTTP2: framing
    18: FetchError.INCOMPLETE,  # PARTIAL_FILE: shorter than Content-Length, or no last chunk
    17: FetchError.BAD_HTTP,  # FTP_COULDNT_SET_TYPE
    22: FetchError.BAD_HTTP,  # HTTP_RETURNED_ERROR: not enabled
    # OPERATION_TIMEDOUT: libcurl only limits the time to connect
    28: FetchError.CONNECT_TIMEOUT,
    30: FetchError.BAD_HTTP,  # FTP_PORT_FAILED
    31: FetchError.INCOMPLETE,  # FTP_COULDNT_USE_REST
    35: FetchError.TLS,  # SSL_CONNECT_ERROR
    43: FetchError.INTERNAL,  # BAD_FUNCTION_ARGUMENT
    47: FetchError.BAD_REDIRECT,  # TOO_MANY_REDIRECTS: libcurl follows none
    52: FetchError.EMPTY_REPLY,  # GOT_NOTHING
    53: FetchError.TLS,  # SSL_ENGINE_NOTFOUND
    54: FetchError.TLS,  # SSL_ENGINE_SETFAILED
    55: FetchError.RESET,  # SEND_ERROR
    56: FetchError.RESET,  # RECV_ERROR; a broken chunk is recognised by its bytes
    58: FetchError.TLS,  # SSL_CERTPROBLEM: of a client certificate
    59: FetchError.TLS,  # SSL_CIPHER
    60: FetchError.TLS_CERTIFICATE,  # PEER_FAILED_VERIFICATION
    # BAD_CONTENT_ENCODING: libcurl decodes nothing here
    61: FetchError.BAD_HTTP,
    63: FetchError.INCOMPLETE,  # FILESIZE_EXCEEDED: not used
    64: FetchError.TLS,  # USE_SSL_FAILED
    66: FetchError.TLS,  # SSL_ENGINE_INITFAILED
    77: FetchError.TLS,  # SSL_CACERT_BADFILE
    80: FetchError.TLS,  # SSL_SHUTDOWN_FAILED
    82: FetchError.TLS_CERTIFICATE,  # SSL_CRL_BADFILE
    83: FetchError.TLS_CERTIFICATE,  # SSL_ISSUER_ERROR
    89: FetchError.INTERNAL,  # NO_CONNECTION_AVAILABLE
    90: FetchError.TLS_CERTIFICATE,  # SSL_PINNEDPUBKEYNOTMATCH
    91: FetchError.TLS_CERTIFICATE,  # SSL_INVALIDCERTSTATUS
    92: FetchError.HTTP2,  # HTTP2_STREAM
    95: FetchError.HTTP2,  # HTTP3
    96: FetchError.TLS,  # QUIC_CONNECT_ERROR
    98: FetchError.TLS,  # SSL_CLIENTCERT: the server requires one
    100: FetchError.HEADERS_TOO_LARGE,  # TOO_LARGE
    101: FetchError.TLS,  # ECH_REQUIRED
}
"""Result code -> error; `internal` for others, which indicate a bug."""


def curl_error(code: int) -> FetchError:
    """Return the error of a result code."""
    return CURL_ERRORS.get(code, FetchError.INTERNAL)


def connect_error(os_errno: int) -> FetchError:
    """Return the error of a failed connection, by the error number of the system."""
    return FetchError.CONNECT_REFUSED if os_errno == errno.ECONNREFUSED else FetchError.CONNECT
