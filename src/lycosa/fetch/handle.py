"""Easy handles with the options that are the same for all requests."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pycurl

from lycosa.config.settings import FetchSettings
from lycosa.core.errors import ConfigError

DNS_CACHE_S = 300
"""Time for which libcurl caches an address; the guard checks every connection, so age is safe."""

BUFFER_BYTES = 128 * 1024
"""Size of the receive buffer, shared by all transfers. Each piece takes the interpreter's lock, so
libcurl's 16 KiB would be slower.
"""

_CERTIFICATE_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""CA bundles of Linux systems; the wheel's libcurl was built for only one."""

_HTTP_ONLY = pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS


# PIPEWAIT is not set: with it, a request waits for a connection of its host that is being opened;
# over HTTP/1.1 until that connection's request ends, so one hanging page would block its host.


def new_handle(settings: FetchSettings, ca_bundle: str) -> Any:
    """Return a handle for GET requests. `ca_bundle`: of `find_ca_bundle`."""
    curl = pycurl.Curl()
    curl.setopt(pycurl.NOSIGNAL, 1)
    curl.setopt(pycurl.BUFFERSIZE, BUFFER_BYTES)
    curl.setopt(pycurl.PROTOCOLS, _HTTP_ONLY)
    curl.setopt(pycurl.FOLLOWLOCATION, 0)
    curl.setopt(pycurl.NETRC, pycurl.NETRC_IGNORED)
    curl.setopt(pycurl.PROXY, "")  # prevents the use of a proxy from the environment
    curl.setopt(pycurl.NOPROXY, "*")
    curl.setopt(pycurl.HTTP09_ALLOWED, 0)
    curl.setopt(pycurl.PATH_AS_IS, 1)
    curl.setopt(pycurl.HTTP_CONTENT_DECODING, 0)
    # chunk framing remains in the body; libcurl still parses it to find the end
    curl.setopt(pycurl.HTTP_TRANSFER_DECODING, 0)
    curl.setopt(
        pycurl.HTTP_VERSION,
        pycurl.CURL_HTTP_VERSION_2TLS if settings.http2 else pycurl.CURL_HTTP_VERSION_1_1,
    )
    curl.setopt(pycurl.CONNECTTIMEOUT_MS, settings.connect_timeout)
    curl.setopt(pycurl.DNS_CACHE_TIMEOUT, DNS_CACHE_S)
    curl.setopt(pycurl.SSL_VERIFYPEER, 1 if settings.verify_tls else 0)
    curl.setopt(pycurl.SSL_VERIFYHOST, 2 if settings.verify_tls else 0)
    if ca_bundle:
        curl.setopt(pycurl.CAINFO, ca_bundle)
    if settings.connect_to:
        curl.setopt(pycurl.CONNECT_TO, list(settings.connect_to))
    return curl


def find_ca_bundle(configured: str) -> str:
    """Return the CA bundle to trust; "": the default of libcurl.

    Raises:
        ConfigError: the configured path is not a file.
    """
    if configured:
        if not Path(configured).is_file():
            raise ConfigError(f"fetch.ca_file: {configured} is not a file")
        return configured
    return next((path for path in _CERTIFICATE_FILES if Path(path).is_file()), "")


_HTTPS_PORT = 443
_TIMEOUT_S = 5.0


def accepts_tls(authority: str) -> bool:
    """Return whether a TLS handshake with `host` or `host:port` succeeds. Never raises.

    Nothing is requested, and the certificate may be invalid: the crawl reports that.
    """
    import ssl

    try:
        parts = urlsplit(f"//{authority}")
        host, port = parts.hostname, parts.port
        if host is None:
            return False
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = socket.create_connection((host, port or _HTTPS_PORT), _TIMEOUT_S)
        with connection, context.wrap_socket(connection, server_hostname=host):
            return True
    except (OSError, ValueError):
        return False
