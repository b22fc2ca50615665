"""What reading many slow BMCs costs: a full read of each, over TLS, compared with an intent.

python benchmarks/bmc.py --hosts 200 --delay 0.3

The BMCs are served by another process on this machine, one address of 127.0.0.0/8 each; every answer takes `--delay`
seconds. Prints one JSON object: hosts, requests (per host), read_s, cpu_s (of this process alone), peak connections,
and the hosts that could not be read.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import ipaddress
import json
import multiprocessing
import os
import ssl
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / ".cache" / "collections"))

SYSTEM = "/redfish/v1/Systems/1"
ATTRIBUTES = 400
INTENT = {"settings": {"smt": True}, "preset": "", "attributes": {}, "strict": False, "foreign_pending": "keep"}


def address(number: int) -> str:
    """The address of the BMC with this number."""
    return f"127.1.{number // 250}.{number % 250 + 1}"


def resources() -> dict[str, dict[str, Any]]:
    """The resources of a machine with a BIOS of the usual size."""
    attributes = {f"Setting{n:03d}": "Enabled" for n in range(ATTRIBUTES)} | {"ProcHyperthreading": "Enabled"}
    settings = {"SettingsObject": {"@odata.id": f"{SYSTEM}/Bios/Settings"}}
    return {
        "/redfish/v1/": {
            "Systems": {"@odata.id": "/redfish/v1/Systems"}, "SessionService": {"@odata.id": "/redfish/v1/SessionService"},
            "Links": {"Sessions": {"@odata.id": "/redfish/v1/SessionService/Sessions"}},
        },
        "/redfish/v1/Systems": {"Members": [{"@odata.id": SYSTEM}]},
        SYSTEM: {"@odata.id": SYSTEM, "Manufacturer": "HPE", "Model": "ProLiant DL380 Gen11", "BiosVersion": "U54 v1.20",
                 "PowerState": "On", "Bios": {"@odata.id": f"{SYSTEM}/Bios"}},
        f"{SYSTEM}/Bios": {"AttributeRegistry": "BiosAttributeRegistryU54.v1_1_20", "Attributes": attributes,
                           "@Redfish.Settings": settings},
        f"{SYSTEM}/Bios/Settings": {"AttributeRegistry": "BiosAttributeRegistryU54.v1_1_20", "Attributes": attributes},
    }  # fmt: skip


class Server:
    """All BMCs at once: one listener on every address."""

    def __init__(self, delay: float) -> None:
        self.delay = delay
        self.bodies = {path: json.dumps(resource).encode() for path, resource in resources().items()}
        self.requests = self.open = self.peak = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, kept."""
        self.open += 1
        self.peak = max(self.peak, self.open)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode("latin-1").split("\r\n")
                method, path, _version = lines[0].split(" ")
                length = next((int(n.partition(":")[2]) for n in lines if n.lower().startswith("content-length:")), 0)
                await reader.readexactly(length)
                self.requests += 1
                await asyncio.sleep(self.delay)
                writer.write(self.answer(method, path))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open -= 1
            writer.close()

    def answer(self, method: str, path: str) -> bytes:
        """What a BMC says."""
        more, status, body = "", "200 OK", self.bodies.get(path, b"{}")
        if method == "POST":
            more, status, body = f"X-Auth-Token: t{self.requests}\r\nLocation: {path}/{self.requests}\r\n", "201 Created", b"{}"
        elif method == "DELETE":
            status, body = "204 No Content", b""
        elif path not in self.bodies:
            status = "404 Not Found"
        return f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode() + body


def certificate(folder: Path, hosts: int) -> Path:
    """A file with key and certificate for all addresses."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.x509.oid import NameOID

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bmc")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.IPAddress(ipaddress.ip_address(address(n))) for n in range(hosts)]
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
        .not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False).sign(key, hashes.SHA256())
    )  # fmt: skip
    path = folder / "bmc.pem"
    plain = serialization.NoEncryption()
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


def serve(pipe: Connection, delay: float, pem: str) -> None:
    """The other process: sends its port, waits for a word, sends what it counted."""

    async def main() -> None:
        server = Server(delay)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        listener = await asyncio.start_server(server.serve, "0.0.0.0", 0, ssl=context, backlog=512)
        pipe.send(listener.sockets[0].getsockname()[1])
        await asyncio.get_running_loop().run_in_executor(None, pipe.recv)
        pipe.send((server.requests, server.peak))

    asyncio.run(main())


def measure(hosts: int, delay: float, connections: int) -> dict[str, Any]:
    """The document described in the module's docstring."""
    from ansible_collections.nearmetal.rack.plugins.module_utils import bios
    from ansible_collections.nearmetal.rack.plugins.plugin_utils import redfish

    with tempfile.TemporaryDirectory(prefix="nearmetal-bmc-") as folder:
        pem = certificate(Path(folder), hosts)
        here, there = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(target=serve, args=(there, delay, str(pem)), daemon=True)
        process.start()
        port = here.recv()
        login = {"username": "admin", "password": "admin", "ca_path": str(pem), **INTENT}
        asked = {address(n): {"baseuri": f"https://{address(n)}:{port}", **login} for n in range(hosts)}
        start, cpu = time.perf_counter(), time.process_time()
        documents = redfish.read_many(asked, connections, bios.needs_registry)
        found = [bios.compare(asked[h], d) for h, d in documents.items() if not d["error"]]
        read_s, cpu_s = time.perf_counter() - start, time.process_time() - cpu
        here.send("end")
        requests, peak = here.recv()
        process.join(10)
    errors = sorted({d["error"] for d in documents.values() if d["error"]})
    return {
        "hosts": hosts, "delay_s": delay, "requests": requests, "requests_per_host": round(requests / hosts, 2),
        "read_s": round(read_s, 3), "cpu_s": round(cpu_s, 3), "peak_connections": peak,
        "compared": len(found), "failed": hosts - len(found), "errors": errors[:3], "cores": os.cpu_count(),
    }  # fmt: skip


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=200)
    parser.add_argument("--delay", type=float, default=0.3, help="seconds for each answer")
    parser.add_argument("--connections", type=int, default=64, help="BMCs asked at once")
    args = parser.parse_args()
    print(json.dumps(measure(args.hosts, args.delay, args.connections)))


if __name__ == "__main__":
    main()
