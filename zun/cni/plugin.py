"""zun-cni: the CNI plug-in, which hands each command to this node's zun-cni-daemon.

containerd starts it once for each ADD, DEL and CHECK of a sandbox, so its start-up is on the way of every capsule.
Hence it runs isolated and without ``site``, imports only what is frozen into the interpreter or built into it, and
parses nothing: the CNI_* variables travel as headers, the network configuration as the unchanged body, and the daemon's
answer is passed on as it is. ``zun-cni-daemon install`` writes a copy with interpreter and constants filled in.
"""

import _socket
import sys
from posix import environ
from time import monotonic, sleep

ADDRESS = ""  # of the daemon: a path (Unix socket), else host:port
KEY_FILE = ""  # what a daemon on a port wants to be shown; for root only
TIMEOUT = 600  # seconds; all of the daemon's own waits end earlier
PATIENCE = 20  # seconds for a daemon that is being restarted; less than the engine waits for a sandbox

VARIABLES = (b"CNI_CONTAINERID", b"CNI_NETNS", b"CNI_IFNAME", b"CNI_ARGS", b"CNI_PATH")
ROUTES = {b"ADD": b"addNetwork", b"DEL": b"delNetwork", b"CHECK": b"checkNetwork"}
NEWEST = "1.0.0"
VERSIONS = '{"cniVersion": "%s", "supportedVersions": ["0.4.0", "1.0.0"]}\n'
LARGEST = 1 << 20  # bytes of configuration


def version_of(config: bytes) -> str:
    """The value of ``cniVersion`` in the configuration, without reading it as JSON."""
    after = config.partition(b'"cniVersion"')[2].partition(b":")[2].lstrip()
    value = after[1:].partition(b'"')[0] if after[:1] == b'"' else b""
    plain = value.replace(b".", b"")
    return value.decode() if plain.isdigit() and len(value) < 16 else NEWEST


def fail(config: bytes, code: int, message: str) -> int:
    """CNI's error on standard output; the exit code."""
    text = "".join(f"\\u{ord(c):04x}" if c < " " or c in '"\\' else c for c in message)
    out = f'{{"cniVersion": "{version_of(config)}", "code": {code}, "msg": "{text}"}}\n'
    sys.stdout.buffer.write(out.encode("utf-8", "replace"))
    return 1


def connected() -> _socket.socket:
    """A socket. Nothing has been asked before there is one, so it is tried again while the daemon is restarted."""
    if ADDRESS[:1] == "/":
        family = _socket.AF_UNIX
        where: str | tuple[str, int] = ADDRESS
    else:
        host, _, port = ADDRESS.rpartition(":")
        family = _socket.AF_INET6 if ":" in host else _socket.AF_INET
        where = (host.strip("[]"), int(port))
    end, pause = monotonic() + PATIENCE, 0.05
    while True:
        sock = _socket.socket(family, _socket.SOCK_STREAM)
        sock.settimeout(TIMEOUT)
        try:
            sock.connect(where)
            return sock
        except (ConnectionRefusedError, FileNotFoundError, BlockingIOError):  # the last: its queue is full
            sock.close()
            if monotonic() + pause >= end:
                raise
        sleep(pause)
        pause = min(pause * 1.5, 1.0)


def ask(command: bytes, config: bytes) -> tuple[int, bytes]:
    """Status and body of the daemon's answer."""
    head = [b"POST /" + ROUTES[command] + b" HTTP/1.0", b"Host: localhost", b"Content-Length: %d" % len(config)]
    for name in VARIABLES:
        value = environ.get(name, b"")
        if b"\n" in value or b"\r" in value or b"\0" in value:
            raise ValueError(name.decode() + " has a line break")
        head.append(name.replace(b"_", b"-") + b": " + value)
    if KEY_FILE:
        with open(KEY_FILE, "rb") as file:
            head.append(b"Zun-Cni-Key: " + file.read(1024).strip())
    sock = connected()
    answer = b""
    try:
        sock.sendall(b"\r\n".join(head) + b"\r\n\r\n" + config)
        while part := sock.recv(65536):
            answer += part
    except (BrokenPipeError, ConnectionResetError):  # it may have answered before it closed
        pass
    sock.close()
    head_, found, body = answer.partition(b"\r\n\r\n")
    words = head_.split(None, 2)
    if not found or len(words) < 2 or not words[1].isdigit():
        raise OSError("it ended the connection without an answer")
    return int(words[1]), body


def main() -> int:
    """The exit code."""
    command = environ.get(b"CNI_COMMAND", b"")
    config = sys.stdin.buffer.read(LARGEST + 1)
    if command == b"VERSION":
        sys.stdout.buffer.write((VERSIONS % version_of(config)).encode())
        return 0
    if command not in ROUTES:
        return fail(config, 4, "CNI_COMMAND has to be ADD, DEL, CHECK or VERSION")
    if len(config) > LARGEST:
        return fail(config, 7, "the network configuration is larger than 1 MiB")
    try:
        status, body = ask(command, config)
    except (OSError, ValueError) as error:
        return fail(config, 11, "zun-cni-daemon at " + ADDRESS + ": " + str(error))  # 11: try again later
    if 200 <= status < 300:
        sys.stdout.buffer.write(body)
        return 0
    if body[:1] != b"{":
        return fail(config, 999, f"zun-cni-daemon answered {status} {body[:200].decode('utf-8', 'replace')}")
    sys.stdout.buffer.write(body)
    return 1


if __name__ == "__main__":
    sys.exit(main())
