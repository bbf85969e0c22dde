"""Certificates for tests, made by the openssl command when they are asked for."""

import datetime
import pathlib
import shutil
import ssl
import subprocess
import typing

HERE = ("DNS:localhost", "IP:127.0.0.1")
HOUR = datetime.timedelta(hours=1)

CONFIG = """
[ca]
default_ca = test
[test]
database = {folder}/index
serial = {folder}/serial
new_certs_dir = {folder}
default_md = sha256
policy = any
copy_extensions = copy
unique_subject = no
[any]
commonName = supplied
"""


def have_openssl():
    return shutil.which("openssl") is not None


def openssl(*words):
    outcome = subprocess.run(["openssl", *map(str, words)], capture_output=True, timeout=60,
                             check=False)
    if outcome.returncode != 0:
        raise RuntimeError(f"openssl {words}: {outcome.stderr.decode(errors='replace')}")
    return outcome.stdout.decode()


class Pair(typing.NamedTuple):
    cert: pathlib.Path
    key: pathlib.Path

    @property
    def serial(self):
        return openssl("x509", "-in", self.cert, "-noout", "-serial").strip().split("=")[1]

    @property
    def expiry(self):
        """Seconds since the epoch."""
        text = openssl("x509", "-in", self.cert, "-noout", "-enddate").strip().split("=")[1]
        return ssl.cert_time_to_seconds(text)


class Authority:
    """A CA in a folder of its own."""

    def __init__(self, folder, name="ca"):
        self.folder = pathlib.Path(folder) / name
        self.folder.mkdir()
        self.key, self.cert = self.folder / "ca.key", self.folder / "ca.pem"
        openssl("req", "-x509", *self.new_key(self.key), "-out", self.cert, "-days", "2", "-subj",
                f"/CN={name}")
        (self.folder / "index").touch()
        (self.folder / "serial").write_text(f"{sum(name.encode()):04X}\n")
        (self.folder / "config").write_text(CONFIG.format(folder=self.folder))

    @staticmethod
    def new_key(path):
        return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc", "-keyout",
                path)

    def issue(self, name, *, hosts=HERE, begin=-HOUR, end=24 * HOUR):
        """A pair NAME.pem, NAME.key; begin and end count from now."""
        pair = Pair(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        request = self.folder / f"{name}.csr"
        openssl("req", *self.new_key(pair.key), "-out", request, "-subj", f"/CN={name}",
                "-addext", f"subjectAltName={','.join(hosts)}")
        now = datetime.datetime.now(datetime.timezone.utc)
        openssl("ca", "-batch", "-notext", "-config", self.folder / "config", "-cert", self.cert,
                "-keyfile", self.key, "-in", request, "-out", pair.cert,
                "-startdate", f"{now + begin:%Y%m%d%H%M%SZ}", "-enddate",
                f"{now + end:%Y%m%d%H%M%SZ}")
        return pair
