"""The descriptor set of CRI is what its .proto files say."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from google.protobuf import descriptor_pb2

from zun.runtime.cri import protocol

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "zun" / "runtime" / "cri" / "protocol"


def descriptors(path: Path) -> descriptor_pb2.FileDescriptorSet:
    found = descriptor_pb2.FileDescriptorSet()
    found.ParseFromString(path.read_bytes())
    return found


def test_descriptor_set_is_compiled_from_the_files_beside_it(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("gen", ROOT / "scripts" / "gen_cri_protocol.py")
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    generator.compile_to(tmp_path / "new.desc")
    assert descriptors(FOLDER / "protocol.desc") == descriptors(tmp_path / "new.desc"), (
        "run scripts/gen_cri_protocol.py"
    )


def test_methods_have_the_paths_of_version_1() -> None:
    assert protocol.METHODS["RunPodSandbox"].path == "/runtime.v1.RuntimeService/RunPodSandbox"
    assert protocol.METHODS["PullImage"].path == "/runtime.v1.ImageService/PullImage"
    assert protocol.METHODS["Subscribe"].path == "/containerd.services.events.v1.Events/Subscribe"


def test_fields_that_are_not_known_do_no_harm() -> None:
    """An engine newer than our part of the protocol."""
    newer = protocol.message("Container")(id="one").SerializeToString() + b"\xfa\x3f\x03new"
    assert protocol.message("Container").FromString(newer).id == "one"


def test_messages_live_in_a_pool_of_their_own() -> None:
    from google.protobuf import descriptor_pool

    try:
        descriptor_pool.Default().FindMessageTypeByName("runtime.v1.Container")
    except KeyError:
        return
    raise AssertionError("another copy of runtime.v1 in this process would clash with ours")
