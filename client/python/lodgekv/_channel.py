"""The channel to a server, as client/channel.cc makes it for C++."""

from __future__ import annotations

import os
import pathlib
from typing import Any, List, Optional, Tuple, Union

import grpc

from lodgekv._units import Duration, to_milliseconds

Path = Union[str, "os.PathLike[str]"]


def _read(path: Optional[Path]) -> Optional[bytes]:
    return None if path is None else pathlib.Path(path).read_bytes()


def credentials_of(ca: Optional[Path], cert: Optional[Path],
                   key: Optional[Path]) -> Optional[grpc.ChannelCredentials]:
    """Of these files in PEM format; None for plaintext."""
    if (cert is None) != (key is None):
        raise ValueError("tls_cert and tls_key belong together: give both or none")
    if ca is None:
        if cert is not None:
            raise ValueError("tls_cert is given without tls_ca, by which the server is known")
        return None
    return grpc.ssl_channel_credentials(_read(ca), _read(key), _read(cert))


def make_channel(target: str, credentials: Optional[grpc.ChannelCredentials],
                 server_name: Optional[str], keepalive_time: Optional[Duration],
                 keepalive_timeout: Duration) -> grpc.Channel:
    options: List[Tuple[str, Any]] = [
        # The server's limits bound the size of answers, and may be configured above gRPC's own.
        ("grpc.max_receive_message_length", -1),
        # Retries are up to the caller.
        ("grpc.enable_retries", 0),
        # Proxies are for the web; a database on loopback is not behind one.
        ("grpc.enable_http_proxy", 0),
        # Else gRPC pings twice, and then no more until data is sent.
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.keepalive_timeout_ms", to_milliseconds(keepalive_timeout)),
        # What newer versions heed instead (gRPC pull request 39239): a minute unless it is set.
        ("grpc.http2.ping_timeout_ms", to_milliseconds(keepalive_timeout)),
    ]
    if keepalive_time is not None:
        options.append(("grpc.keepalive_time_ms", to_milliseconds(keepalive_time)))
    if credentials is None:
        if server_name is not None:
            raise ValueError("tls_server_name is given without tls_ca or credentials")
        return grpc.insecure_channel(target, options)
    if server_name is not None:
        options.append(("grpc.ssl_target_name_override", server_name))
    return grpc.secure_channel(target, credentials, options)
