"""Writes zun/runtime/cri/protocol/protocol.desc from the .proto files beside it; needs grpcio-tools."""

import sys
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

PROTOCOL = Path(__file__).parents[1] / "zun" / "runtime" / "cri" / "protocol"


def compile_to(target: Path) -> None:
    """One set of all files and of what they import. Raises SystemExit."""
    known = Path(grpc_tools.__file__).parent / "_proto"
    sources = sorted(path.name for path in PROTOCOL.glob("*.proto"))
    command = ["protoc", f"-I{PROTOCOL}", f"-I{known}", "--include_imports", f"--descriptor_set_out={target}", *sources]
    if protoc.main(command) != 0:
        raise SystemExit("the .proto files could not be compiled")


if __name__ == "__main__":
    compile_to(PROTOCOL / "protocol.desc")
    sys.stdout.write(f"{PROTOCOL / 'protocol.desc'} written\n")
