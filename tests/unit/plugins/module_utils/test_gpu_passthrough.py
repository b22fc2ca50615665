"""GPUs for guests: what goes along, what stands in the way, what is written, and a kernel that binds like one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import host_states
import pytest
from ansible_collections.nearmetal.rack.plugins.module_utils import loop, passthrough
from ansible_collections.nearmetal.rack.plugins.module_utils.capabilities import (
    gpu_passthrough,
    iommu,
    kernel_args,
)
from ansible_collections.nearmetal.rack.plugins.module_utils.host import (
    Host,
    HostError,
    Missing,
    Result,
    SnapshotHost,
)
from ansible_collections.nearmetal.rack.plugins.modules import gpu_passthrough as module
from hypothesis import given
from hypothesis import strategies as st

GPU, AUDIO, UCSI, SWITCH, OTHER = "0000:17:00.0", "0000:17:00.1", "0000:17:00.3", "0000:18:00.0", "0000:1a:00.0"
BRIDGE, NIC = "0000:16:00.0", "0000:19:00.0"
KINDS = {
    GPU: ("0x030200", "0x10de", "0x2330", "nouveau", 7), AUDIO: ("0x040300", "0x10de", "0x10f0", "snd_hda_intel", 7),
    UCSI: ("0x0c8000", "0x10de", "0x1ad9", "", 7), SWITCH: ("0x068000", "0x10de", "0x22a3", "", 7),
    BRIDGE: ("0x060400", "0x8086", "0x1", "pcieport", 7), NIC: ("0x020000", "0x15b3", "0x1021", "mlx5_core", 9),
    OTHER: ("0x030200", "0x10de", "0x2330", "nvidia", 8),
}  # fmt: skip


def state(files: dict[str, str] | None = None, loader: str = "grub", last: Any = None, **groups_and_drivers: Any) -> Any:
    """A host with two GPUs, one of which has company. group_/driver_ and a name such as nic: other than in KINDS."""
    made = host_states.state(cmdline="ro intel_iommu=on iommu=pt")
    made["pci"] = []
    names = {GPU: "gpu", AUDIO: "audio", UCSI: "ucsi", SWITCH: "switch", BRIDGE: "bridge", NIC: "nic", OTHER: "other"}
    for address, (class_, vendor, device, driver, group) in sorted(KINDS.items()):
        name = names[address]
        made["pci"].append({
            "address": address, "class": class_, "vendor": vendor, "device": device, "physfn": "", "parent": "",
            "driver": groups_and_drivers.get(f"driver_{name}", driver),
            "iommu_group": groups_and_drivers.get(f"group_{name}", groups_and_drivers.get("groups", group)),
        })  # fmt: skip
    made["files"] = files or {}
    made["boot"]["loader"] = loader
    made["kernel"].update(boot_id="b2", lockdown="none")
    made["last_reboot"] = last
    made["cpu"].update(arch="x86_64", vendor="GenuineIntel")
    made["iommu"] = {"groups": 9, "types": {"identity": 9}, "units": ["dmar0"], "tables": []}
    return made


def options(*devices: str, **more: Any) -> dict[str, Any]:
    return {"devices": list(devices), "driver": "vfio-pci", "keep_off": ["nouveau"], "accept_console": False, "iommu": None, **more}


def test_what_belongs_to_a_gpu_goes_along() -> None:
    found = gpu_passthrough.decide(options(GPU), state())
    assert not found.problems
    assert [s.key for s in found.steps] == ["boot", GPU, AUDIO, UCSI, SWITCH]
    assert found.steps[1].before == "nouveau" and "same card" in found.steps[2].reason and "NVSwitch" in found.steps[4].reason
    assert [f["address"] for f in found.call.args["functions"]] == [GPU, AUDIO, UCSI, SWITCH], "no bridge"


def test_all_of_a_kind() -> None:
    found = gpu_passthrough.decide(options("10de:2330"), state())
    assert {GPU, OTHER} < {s.key for s in found.steps}
    assert found.call.args["ids"] == [{"id": "10de:2330", "driver": "vfio-pci"}]


def test_a_foreign_function_in_the_group_is_named() -> None:
    (problem,) = gpu_passthrough.decide(options(GPU), state(group_nic=7)).problems
    assert problem.value == NIC and "mlx5_core" in problem.message and problem.kind == "host"
    (problem,) = gpu_passthrough.decide(options(GPU), state(group_other=7, driver_other="")).problems
    assert problem.value == OTHER, "another GPU that was not asked for"
    assert not gpu_passthrough.decide(options(GPU, OTHER), state(group_other=7)).problems


def test_no_such_device_and_none_of_the_kind() -> None:
    (problem,) = gpu_passthrough.decide(options("10de:ffff"), state()).problems
    assert f"it has {GPU} (10de:2330), {SWITCH} (10de:22a3), {OTHER} (10de:2330)" in problem.message
    (problem,) = gpu_passthrough.decide(options(NIC), state()).problems
    assert "no GPU" in problem.message
    assert [p.value for p in gpu_passthrough.problems(options("17:00.0", GPU, GPU))] == ["17:00.0", ["17:00.0", GPU, GPU]]


def test_the_console_is_taken_only_with_consent() -> None:
    shown = {f"/sys/bus/pci/devices/{GPU}/boot_vga": "1\n", f"/sys/bus/pci/devices/{OTHER}/boot_vga": "0\n"}
    (problem,) = gpu_passthrough.decide(options(GPU), state(shown)).problems
    assert "console" in problem.message and "accept_console" in problem.fix
    assert not gpu_passthrough.decide(options(GPU, accept_console=True), state(shown)).problems
    assert not gpu_passthrough.decide(options(OTHER), state(shown)).problems


def test_a_driver_that_the_host_needs_is_not_kept_off() -> None:
    (problem,) = gpu_passthrough.decide(options(GPU, keep_off=["nvidia"]), state()).problems
    assert OTHER in problem.message and problem.variable == "gpu_passthrough_keep_off"
    assert not gpu_passthrough.decide(options(GPU, OTHER, keep_off=["nvidia"]), state()).problems
    (warning,) = gpu_passthrough.decide(options(OTHER), state()).warnings
    assert GPU in warning and "nouveau" in warning


MODULES = "nvidia 56823808 45 nvidia_uvm,nvidia_modeset, Live 0x0 (POE)\nnouveau 2400256 0 - Live 0x0\nfloppy 1 1 - Live 0x0\n"


def test_a_driver_in_use_keeps_the_device_till_the_reboot() -> None:
    assert passthrough.users(MODULES, "nvidia") == 43 and passthrough.users(MODULES, "nouveau") == 0
    found = gpu_passthrough.decide(options(GPU, OTHER), state({"/proc/modules": MODULES}))
    by_key = {s.key: s for s in found.steps}
    assert (by_key[OTHER].disruption, by_key[GPU].disruption) == ("reboot", "none")
    assert "43 times" in by_key[OTHER].reason
    assert {f["address"]: f["now"] for f in found.call.args["functions"]}[OTHER] is False


def test_no_reboot_loop() -> None:
    busy = {"/proc/modules": MODULES}
    (step,) = [s for s in gpu_passthrough.decide(options(OTHER), state(busy)).steps if s.disruption == "reboot"]
    note = {"boot_id": "b1", "reason": "", "wanted": f"{step.id}={step.after}"}
    found = gpu_passthrough.decide(options(OTHER), state(busy, last=note))
    assert not found.steps and "has it again" in found.problems[0].message and "initramfs" in found.problems[0].fix


def test_without_groups_the_iommu_comes_first() -> None:
    bare = state(groups=None)
    (problem,) = gpu_passthrough.decide(options(GPU), bare).problems
    assert "iommu_mode: passthrough" in problem.fix
    bare["kernel"]["cmdline"] = bare["boot"]["configured"] = "ro"
    asked = {"gpu_passthrough": options(GPU), "iommu": {"mode": "passthrough", "strict": None}}
    plan = loop.decide(asked, bare, {"gpu_passthrough": gpu_passthrough, "iommu": iommu, "kernel_args": kernel_args})
    assert plan["problems"] == [] and plan["reboot"]
    assert [s["requires"] for s in plan["steps"] if s["capability"] == "gpu_passthrough"][0] == ["kernel_args/cmdline", "reboot"]
    assert "gpu_passthrough" not in plan["calls"], "done after the boot"


def test_the_initramfs_of_an_image_is_left_alone() -> None:
    assert gpu_passthrough.cmdline(options(GPU), state(loader="ostree")).args == ("modprobe.blacklist=nouveau",)
    assert not gpu_passthrough.cmdline(options(GPU), state())


def test_nothing_to_do_and_nothing_handed_over() -> None:
    assert gpu_passthrough.decide(options(), state()) == gpu_passthrough.Decision()
    kept = gpu_passthrough.decide(options(OTHER), state())
    binding = passthrough.Binding({OTHER: "vfio-pci"}, {}, ["nouveau"])
    files = {path: text for path, text in passthrough.files(binding).items() if text}
    done = state(files, driver_other="vfio-pci", driver_gpu="")
    assert kept.steps and gpu_passthrough.decide(options(OTHER), done) == gpu_passthrough.Decision()
    (step,) = gpu_passthrough.decide(options(), state(files)).steps
    assert step.after == "nothing handed over", "our files go"


def test_a_tree_gets_files_only() -> None:
    tree = state()
    tree["live"], tree["kernel"]["cmdline"] = False, None
    assert [s.key for s in gpu_passthrough.decide(options(GPU), tree).steps] == ["boot"]
    tree["pci"] = []
    assert gpu_passthrough.decide(options("10de:2330"), tree).call.args["ids"]


def test_nonsense_in_proc_modules() -> None:
    assert passthrough.users("", "nvidia") == passthrough.users("nvidia\nnvidia x - -\nnvidia 1 - - Live\n", "nvidia") == 0
    assert passthrough.users("xhci_pci 1 2 - Live 0x0\n", "xhci_hcd") == 2


# --- the module, on a kernel that binds


class Kernel(Host):
    """Drivers and devices as sysfs shows them. stuck: a driver whose probe fails. opened: device file to process."""

    live = True

    def __init__(self, stuck: str = "", opened: dict[str, str] | None = None, refresh: Result | None = None) -> None:
        self.drivers = {GPU: "nouveau", AUDIO: "snd_hda_intel", OTHER: ""}
        self.native = dict(self.drivers)
        self.override = dict.fromkeys(self.drivers, "")
        self.stuck, self.opened, self.refresh = stuck, opened or {}, refresh
        self.disk: dict[str, str] = {}
        self.ran: list[str] = []
        self.poked: list[str] = []

    def _snapshot(self) -> SnapshotHost:
        files, links = dict(self.disk), {}
        for address, driver in self.drivers.items():
            base = f"/sys/bus/pci/devices/{address}"
            files[base + "/driver_override"] = "(null)\n"
            links[base + "/iommu_group"] = "../../../../kernel/iommu_groups/7"
            if driver:
                links[base + "/driver"] = f"../../../../bus/pci/drivers/{driver}"
        files[f"/sys/bus/pci/devices/{GPU}/drm/card1/dev"] = "226:1\n"
        files[f"/sys/bus/pci/devices/{AUDIO}/sound/card2/id"] = "x\n"
        files[f"/proc/driver/nvidia/gpus/{OTHER}/information"] = "Model: \t H100\nDevice Minor: \t 3\n"
        for pid, (path, name) in enumerate(self.opened.items(), 100):
            files[f"/proc/{pid}/comm"] = name + "\n"
            links[f"/proc/{pid}/fd/5"] = path
        if self.refresh is not None:
            files["/usr/sbin/update-initramfs"] = "x"
        return SnapshotHost(dict(files), links)

    def read_bytes(self, path: str) -> bytes:
        return self._snapshot().read_bytes(path)

    def list(self, path: str) -> list[str]:
        return self._snapshot().list(path)

    def readlink(self, path: str) -> str:
        return self._snapshot().readlink(path)

    def exists(self, path: str) -> bool:
        return self._snapshot().exists(path)

    def write(self, path: str, text: str, mode: Any = None, in_place: bool = False, backup: bool = True) -> None:
        self.disk[path] = text

    def remove(self, path: str, backup: bool = True) -> None:
        self.disk.pop(path, None)

    def run(self, argv: Sequence[str], timeout: float = 300, stdin: str = "") -> Result:
        self.ran.append(" ".join(argv))
        if argv[0] == "udevadm":
            raise Missing("udevadm", "command not found")
        return self.refresh if argv[0].endswith("initramfs") and self.refresh is not None else Result(0, "", "")

    def poke(self, path: str, text: str) -> None:
        self.poked.append(f"{path} {text.strip()}")
        parts = path.split("/")
        if parts[-1] == "driver_override":
            self.override[parts[-2]] = text.strip()
        elif parts[-1] == "unbind":
            assert self.drivers[text] == parts[-2]
            self.drivers[text] = ""
        elif parts[-1] == "drivers_probe" and not self.drivers[text]:
            chosen = self.override[text] or self.native[text]
            self.drivers[text] = "" if chosen == self.stuck else chosen


def asked(*addresses: str, **more: Any) -> dict[str, Any]:
    functions = [{"address": address, "driver": "vfio-pci", "now": True} for address in addresses]
    return {"functions": functions, "ids": [], "keep_off": ["nouveau"], **more}


def test_bound_now_and_at_every_boot() -> None:
    host = Kernel(refresh=Result(0, "", ""))
    dry = module.converge(host, asked(GPU, AUDIO), True)
    assert host.disk == {} and host.poked == [] and host.ran == []
    done = module.converge(host, asked(GPU, AUDIO), False)
    assert host.drivers == {GPU: "vfio-pci", AUDIO: "vfio-pci", OTHER: ""}
    assert {k: dry[k] for k in dry} == done
    assert host.ran[0] == "/usr/sbin/update-initramfs -u -k all"
    assert f'KERNEL=="{AUDIO}", ATTR{{driver_override}}="vfio-pci"' in host.disk[passthrough.RULES]
    assert "blacklist nouveau\ninstall nouveau /bin/false\n" in host.disk[passthrough.MODPROBE]
    again = module.converge(host, asked(GPU, AUDIO), False)
    assert not again["changed"] and len([r for r in host.ran if "initramfs" in r]) == 1


@pytest.mark.parametrize(
    ("opened", "address"),
    [("/dev/dri/card1", GPU), ("/dev/snd/pcmC2D0p", AUDIO), ("/dev/nvidia3", OTHER), ("/dev/vfio/7", GPU)],
)
def test_a_device_that_is_open_is_named_and_not_torn_away(opened: str, address: str) -> None:
    host = Kernel(opened={"/dev/null": "init", opened: "qemu-kvm"})
    with pytest.raises(HostError, match=r"in use by qemu-kvm \(101\)"):
        module.converge(host, asked(address), False)
    assert host.poked == [] and host.drivers == Kernel().drivers


@pytest.mark.parametrize("opened", ["/dev/dri/card11", "/dev/snd/pcmC21D0p", "/dev/nvidia31", "/dev/nvidiactl", "/dev/vfio/77"])
def test_other_devices_may_be_open(opened: str) -> None:
    assert module.converge(Kernel(opened={opened: "x"}), asked(GPU, AUDIO, OTHER), False)["changed"]


def test_left_for_the_boot() -> None:
    host = Kernel(opened={"/dev/nvidia3": "train"})
    functions = [{"address": OTHER, "driver": "vfio-pci", "now": False}]
    assert module.converge(host, asked(functions=functions), False)["changed"]
    assert host.poked == [] and passthrough.RULES in host.disk


def test_given_back_where_it_does_not_take() -> None:
    host = Kernel(stuck="vfio-pci")
    with pytest.raises(HostError, match=r"vfio-pci did not take it \(driver now: none\)"):
        module.converge(host, asked(GPU), False)
    assert host.drivers[GPU] == "nouveau" and host.override[GPU] == ""


def test_an_initramfs_that_fails_is_tried_again() -> None:
    host = Kernel(refresh=Result(1, "", "no space left"))
    with pytest.raises(HostError, match="no space left"):
        module.converge(host, asked(GPU), False)
    assert host.disk == {} and host.drivers[GPU] == "nouveau"
    host.refresh = Result(0, "", "")
    assert module.converge(host, asked(GPU), False)["changed"] and len([r for r in host.ran if "initramfs" in r]) == 2


def test_handed_back_at_the_next_boot() -> None:
    host = Kernel()
    module.converge(host, asked(GPU), False)
    done = module.converge(host, asked(keep_off=[]), False)
    assert done["changed"] and host.disk == {} and host.drivers[GPU] == "vfio-pci"


def test_a_function_that_is_not_there() -> None:
    with pytest.raises(HostError, match="no such function"):
        module.converge(Kernel(), asked("0000:99:00.0"), False)


@given(st.sets(st.sampled_from(sorted(KINDS))), st.sets(st.sampled_from(["10de:2330", "10de:22a3"])),
       st.sampled_from([{}, {"group_nic": 7}, {"group_other": 7}, {"groups": 3}]))  # fmt: skip
def test_after_an_ideal_apply_nothing_is_left(addresses: set[str], ids: set[str], groups: dict[str, Any]) -> None:
    intent = options(*sorted(addresses), *sorted(ids))
    before = state(**groups)
    found = gpu_passthrough.decide(intent, before)
    if found.problems or not found.call:
        assert found.problems or not intent["devices"]
        return
    args = found.call.args
    drivers = {f["address"]: f["driver"] for f in args["functions"]}
    assert all(f["iommu_group"] not in {g["iommu_group"] for g in before["pci"] if g["address"] in drivers}
               or f["address"] in drivers or f["class"] == "0x060400" for f in before["pci"]), "groups are whole"  # fmt: skip
    binding = passthrough.Binding(drivers, {one["id"]: one["driver"] for one in args["ids"]}, args["keep_off"])
    after = state({p: t for p, t in passthrough.files(binding).items() if t}, **groups)
    for function in after["pci"]:
        function["driver"] = drivers.get(function["address"], function["driver"])
    left = gpu_passthrough.decide(intent, after)
    assert (left.steps, left.call, left.problems) == ((), None, ())
