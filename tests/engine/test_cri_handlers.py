"""A second runtime handler, really run: gVisor's runsc (S2.18)."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from tests.support.pods import CriBench
from zun.domain.errors import StartFailed


@pytest.fixture(autouse=True)
def runsc() -> None:
    if shutil.which("runsc") is None:
        pytest.fail("runsc is not installed; `make test` installs it.")


async def test_capsule_in_gvisor(cri: CriBench) -> None:
    spec = cri.sandbox_spec(handler="runsc", memory_mib=256)
    box = await cri.pods.run_sandbox(spec)
    assert (box.handler, box.ready) == ("runsc", True)
    assert (await cri.pods.run_sandbox(spec)).sandbox_id == box.sandbox_id
    first = cri.member_spec(spec.uuid, "sh", "-c", "echo before; exit 3")
    await cri.pods.create(first)
    await cri.pods.start(first.uuid)
    assert (await cri.reaches(first.uuid, "exited", 60)).exit_code == 3
    assert await cri.logged(first.uuid, "before") == "before\n"
    await cri.pods.create(replace(first, attempt=1, command=("sh", "-c", "echo again; exit 0")))
    await cri.pods.start(first.uuid)
    assert (await cri.reaches(first.uuid, "exited", 60)).exit_code == 0
    member = await cri.running(spec.uuid, environment={"WHO": "capsule"})
    assert "gVisor" in await cri.sh(member, "dmesg | head -1", 60)
    assert await cri.sh(member, "echo $WHO", 60) == "capsule"
    await cri.pods.stop(member, 1)
    assert (await cri.reaches(member, "exited", 60)).exit_code in (137, 143)


async def test_start_failure_in_gvisor(cri: CriBench) -> None:
    capsule = await cri.capsule(handler="runsc")
    member = await cri.created(capsule, "/no/such/program")
    with pytest.raises(StartFailed):
        await cri.pods.start(member)
    await cri.pods.remove(member, force=True)
