"""PCI Express registers: both sources, the masks of a path, what the kernel is told, what is written and read back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import boot_trees
import host_states
import pcie_space
import pytest
import trees
from ansible_collections.nearmetal.rack.plugins.module_utils import acs, bootloader, cmdline, pcie_settings
from ansible_collections.nearmetal.rack.plugins.module_utils.capabilities import iommu, kernel_args
from ansible_collections.nearmetal.rack.plugins.module_utils.host import (
    FileHost,
    HostError,
    Missing,
    Result,
    SnapshotHost,
)
from ansible_collections.nearmetal.rack.plugins.module_utils.observe import pcie
from ansible_collections.nearmetal.rack.plugins.module_utils.observe.document import observe
from ansible_collections.nearmetal.rack.plugins.modules import pcie_settings as module
from hypothesis import given
from hypothesis import strategies as st

ROOT, UP, NIC_PORT, GPU_PORT = "0000:16:00.0", "0000:17:00.0", "0000:18:00.0", "0000:18:01.0"
NIC, GPU = "0000:19:00.0", "0000:1a:00.0"
PATH = {"gpu": GPU, "nic": NIC}

# --- reading

LINKS = st.sampled_from(["2.5 GT/s x1", "16 GT/s x16", "32 GT/s x8", "64 GT/s x16"])
SIZES = st.sampled_from([128, 256, 512, 1024, 2048, 4096])
BITS = st.integers(0, 127).map(pcie.bits)


@st.composite
def told(draw: st.DrawFn) -> dict[str, Any]:
    port = draw(st.sampled_from(["endpoint", "legacy", "root", "upstream", "downstream", "integrated"]))
    link = ("", "") if port == "integrated" else (draw(LINKS), draw(LINKS))
    able = draw(st.booleans())
    return pcie_space.registers(
        port, max_payload=draw(SIZES), max_payload_able=draw(SIZES), max_read_request=draw(SIZES),
        relaxed_ordering=draw(st.booleans()), link=link[0], link_able=link[1], ats_capable=able,
        ats_enabled=draw(st.booleans()) if able else None,
        acs=draw(st.none() | st.fixed_dictionaries({"able": BITS, "enabled": BITS})),
    )  # fmt: skip


@host_states.unhurried
@given(told())
def test_any_registers_come_back_from_configuration_space(expected: dict[str, Any]) -> None:
    assert pcie.parse_config(bytes(pcie_space.space(expected))) == expected


@host_states.unhurried
@given(st.lists(told(), max_size=4))
def test_any_registers_come_back_from_lspci(expected: list[dict[str, Any]]) -> None:
    for domain in ("", "0000:"):
        text = "".join(pcie_space.lspci(f"{domain}17:00.{i}", one) for i, one in enumerate(expected))
        assert pcie.parse_lspci(text) == {f"0000:17:00.{i}": one for i, one in enumerate(expected)}


def test_what_lspci_itself_prints() -> None:
    """lspci 3.9 on dumps of three functions made by pcie_space (lspci -F DUMP -vvv -n)."""
    text = (Path(pcie_space.__file__).parent / "lspci-vvv.txt").read_text()
    assert pcie.parse_lspci(text) == {
        "0000:16:00.0": pcie_space.registers("root", acs={"able": "1011111", "enabled": "0011101"}, link="16 GT/s x16"),
        "0000:18:00.0": pcie_space.registers("downstream", acs={"able": "1111111", "enabled": "1011101"}, max_payload=512),
        "0000:19:00.0": pcie_space.registers(
            ats_capable=True, ats_enabled=True, max_read_request=4096, relaxed_ordering=False, link="32 GT/s x8"
        ),
    }


@given(st.binary(max_size=300))
def test_nonsense_is_no_registers(data: bytes) -> None:
    pcie.parse_config(data)
    assert pcie.parse_config(data[:64]) is None, "what an unprivileged reader gets"


def test_lspci_sample(samples: Path) -> None:
    """The excerpts as they were reported, put where lspci prints them."""
    text = (samples / "pci" / "lspci-ats-acs.txt").read_text()
    lines = [line if line.startswith(("\t", "Cap")) else "\t\t" + line for line in text.splitlines() if not line.startswith("#")]
    body = "\n".join(line.replace("Capabilities", "\tCapabilities") if line.startswith("Cap") else line for line in lines)
    body = body.replace("\t\tACSCtl", "\tCapabilities: [150 v1] Access Control Services\n\t\tACSCtl").replace("\tATS", "\t\tATS")
    head = pcie_space.lspci("1a:00.0", pcie_space.registers()).split("\tKernel")[0]
    found = pcie.parse_lspci(head + body + "\n")["0000:1a:00.0"]
    assert found["ats_enabled"] is True
    assert found["acs"] and found["acs"]["enabled"] == "1011101"
    assert acs.met(acs.VM_NIC_PORT, found["acs"]["enabled"])


def machine(**configs: dict[str, Any]) -> trees.Tree:
    """A GPU and a NIC below one switch, as a tree; the registers of each by the last part of its name."""
    known = {
        ROOT: pcie_space.bridge("root"), UP: pcie_space.registers("upstream"), NIC_PORT: pcie_space.bridge(),
        GPU_PORT: pcie_space.bridge(), NIC: pcie_space.registers(ats_capable=True, ats_enabled=False),
        GPU: pcie_space.registers(),
    }  # fmt: skip
    tree = trees.build()
    above = {ROOT: "", UP: ROOT, NIC_PORT: f"{ROOT}/{UP}", GPU_PORT: f"{ROOT}/{UP}", NIC: f"{ROOT}/{UP}/{NIC_PORT}",
             GPU: f"{ROOT}/{UP}/{GPU_PORT}"}  # fmt: skip
    for address, told_ in known.items():
        folder = "/sys/devices/pci0000:16/" + "/".join(filter(None, (above[address], address)))
        tree.links["/sys/bus/pci/devices/" + address] = "../../.." + folder.removeprefix("/sys")
        ids = {GPU: ("30200", "10DE:2330"), NIC: ("20000", "15B3:1021")}
        class_, vendor = ids.get(address, ("60400", "1000:C030"))
        driver = {NIC: "DRIVER=mlx5_core\n", GPU: ""}.get(address, "DRIVER=pcieport\n")
        tree.files[folder + "/uevent"] = f"{driver}PCI_CLASS={class_}\nPCI_ID={vendor}\nPCI_SLOT_NAME={address}\n"
        data = bytes(pcie_space.space(configs.get(address[5:].replace(":", "_").replace(".", "_"), told_)))
        tree.files[folder + "/config"] = data.decode("utf-8", "surrogateescape")
    return tree


def test_the_bridges_of_a_path_are_observed_and_others_are_not() -> None:
    tree = machine()
    other = "/sys/devices/pci0000:00/0000:00:1f.0"
    tree.links["/sys/bus/pci/devices/0000:00:1f.0"] = "../../.." + other.removeprefix("/sys")
    tree.files[other + "/uevent"] = "PCI_CLASS=60400\nPCI_ID=8086:0001\n"
    tree.files[other + "/config"] = "x" * 300
    state = observe(tree.host())
    assert set(state["pcie"]) == {ROOT, UP, NIC_PORT, GPU_PORT, NIC, GPU}
    assert state["pcie"][NIC_PORT] == pcie_space.bridge()


def test_lspci_of_an_archive_where_there_is_no_configuration_space() -> None:
    tree = machine()
    for path in [p for p in tree.files if p.endswith("/config")]:
        del tree.files[path]
    printed = {"18:00.0": pcie_space.bridge(), "19:00.0": pcie_space.registers()}
    tree.files["/sos_commands/pci/lspci_-nnvv"] = "".join(pcie_space.lspci(*item) for item in printed.items())
    assert observe(tree.host())["pcie"] == {NIC_PORT: pcie_space.bridge(), NIC: pcie_space.registers()}


def test_without_privilege_nothing_is_known() -> None:
    tree = machine()
    for path in [p for p in tree.files if p.endswith("/config")]:
        tree.files[path] = tree.files[path].encode("utf-8", "surrogateescape")[:64].decode("utf-8", "surrogateescape")
    state = observe(tree.host(live=True))
    assert state["pcie"] == {} and any("first 64 bytes" in note["reason"] for note in state["unread"])


# --- the masks of a path


def state(release: str = "6.15.0", cmdline: str = "ro iommu=pt intel_iommu=on", lockdown: str = "none", **more: Any) -> Any:
    """The machine, observed, with an IOMMU in use."""
    made: Any = observe(machine(**more.pop("configs", {})).host(live=True))
    made["kernel"].update(release=release, cmdline=cmdline, lockdown=lockdown, boot_id="b2")
    made["boot"] = {"loader": "grub", "configured": cmdline, "others": [], "sealed": "", "sources": []}
    made["iommu"] = {"groups": 6, "types": {"identity": 6}, "units": ["dmar0"], "tables": ["DMAR"]}
    return {**made, **more}


def options(**given_: Any) -> dict[str, Any]:
    return {"mode": None, "strict": None, "ats": None, "acs_paths": [], "acs": "vm", "acs_method": "auto",
            "max_read_request": None, "relaxed_ordering": None, "pcie_devices": [], "nic_firmware": None, **given_}  # fmt: skip


def test_masks_of_a_path() -> None:
    host = state()
    assert acs.masks([PATH], "vm", host["pci"], host["pcie"]) == (
        {ROOT: "xx111x1", NIC_PORT: "1x111x1", GPU_PORT: "xx111x1"}, [])  # fmt: skip
    assert acs.masks([PATH], "bare_metal", host["pci"], host["pcie"])[0] == dict.fromkeys((ROOT, NIC_PORT, GPU_PORT), "xx000x0")


def test_a_port_that_cannot_is_named() -> None:
    host = state(configs={"18_00_0": pcie_space.bridge(able="0011101")})
    ((value, message, fix),) = acs.masks([PATH], "vm", host["pci"], host["pcie"])[1]
    assert value == NIC_PORT and "able of 0011101" in message and fix
    found = iommu.decide(options(acs_paths=[PATH]), host)
    assert [p.value for p in found.problems] == [NIC_PORT] and not iommu.cmdline(options(acs_paths=[PATH]), host).args


@pytest.mark.parametrize(
    ("path", "message"),
    [({"gpu": "0000:99:00.0", "nic": NIC}, "there is no PCI function 0000:99:00.0"), ({"gpu": ROOT, "nic": ROOT}, "no bridge")],
)
def test_paths_that_are_none(path: dict[str, str], message: str) -> None:
    host = state()
    faults = acs.masks([path], "vm", host["pci"], host["pcie"])[1]
    assert len(faults) == 1 and message in faults[0].message


def test_registers_that_were_not_read_are_no_absent_ones() -> None:
    host = state()
    del host["pcie"][NIC_PORT]
    (problem,) = iommu.decide(options(acs_paths=[PATH]), host).problems
    assert "could not be read" in problem.message and "become" in problem.fix


def test_data_direct_on_grace() -> None:
    """rdma_topo: one direction is redirected on each side, and the root port's source validation is off."""
    host = state()
    for function in host["pci"]:
        if function["address"] == NIC:
            function["device"] = "0x2100"
        if function["address"] == ROOT:
            function["vendor"], function["device"] = "0x10de", "0x22b1"
    assert acs.masks([PATH], "vm", host["pci"], host["pcie"])[0] == {ROOT: "xx111x0", NIC_PORT: "xx110x1", GPU_PORT: "xx101x1"}
    assert not iommu.decide(options(acs_paths=[PATH]), host).problems


def test_one_policy_per_platform() -> None:
    """Grace: no pass-through mode with GPUs (sriov-network-operator#864), no ATS of x86's kind."""
    host = state()
    for function in host["pci"]:
        if function["address"] == ROOT:
            function["vendor"], function["device"] = "0x10de", "0x22b8"
    found = iommu.decide(options(mode="passthrough", ats=True, acs_paths=[PATH]), host)
    assert [p.variable for p in found.problems] == ["iommu_mode", "iommu_ats", "iommu_acs_paths"]


MASK = st.text("01x", min_size=7, max_size=7)


@given(MASK, BITS)
def test_a_mask_written_is_met_and_touches_nothing_else(mask: str, before: str) -> None:
    value, written = acs.register(mask)
    after = pcie.bits(int(before, 2) & ~written | value)
    assert acs.met(mask, after)
    assert all(b == a for m, b, a in zip(mask, before, after, strict=True) if m == "x")


@given(MASK, MASK)
def test_two_masks_at_once(one: str, two: str) -> None:
    try:
        joint = acs.both(one, two)
    except ValueError:
        assert any({a, b} == {"0", "1"} for a, b in zip(one, two, strict=True))
        return
    assert joint == acs.both(two, one) == acs.both(joint, one)


# --- by the kernel


@pytest.mark.parametrize(
    ("release", "policy", "lockdown", "method", "how"),
    [
        ("6.15.0", "vm", "none", "auto", "config_acs"), ("6.15.0", "bare_metal", "none", "auto", "config_acs"),
        ("6.11.0-29-generic", "vm", "none", "auto", "config_acs"), ("6.12.5", "bare_metal", "none", "auto", "runtime"),
        ("6.12.5", "bare_metal", "integrity", "auto", "config_acs"), ("6.12.5", "bare_metal", "none", "kernel", "config_acs"),
        ("6.8.0", "vm", "none", "auto", "runtime"), ("6.8.0", "bare_metal", "none", "auto", "disable_acs_redir"),
        ("6.15.0", "vm", "none", "runtime", "runtime"),
    ],
)  # fmt: skip
def test_means_by_kernel(release: str, policy: str, lockdown: str, method: str, how: str) -> None:
    count = 1 if policy == "vm" else 3
    assert acs.means(method, policy, count, release, lockdown != "none") == how


def test_the_kernel_is_told_only_what_it_does_not_do_by_itself() -> None:
    assert iommu.cmdline(options(acs_paths=[PATH]), state()).args == (f"pci=config_acs=1x111x1@{NIC_PORT}",)
    (word,) = iommu.cmdline(options(acs_paths=[PATH], acs="bare_metal"), state()).args
    assert word == f"pci=config_acs=xx000x0@{ROOT};xx000x0@{NIC_PORT};xx000x0@{GPU_PORT}"
    (word,) = iommu.cmdline(options(acs_paths=[PATH], acs="bare_metal"), state("6.8.0")).args
    assert word == f"pci=disable_acs_redir={ROOT};{NIC_PORT};{GPU_PORT}"


SEVERAL = f"pci=config_acs=xx000x0@{ROOT};xx000x0@{NIC_PORT};xx000x0@{GPU_PORT}"


@pytest.mark.parametrize("make", [boot_trees.debian, boot_trees.rhel9, boot_trees.rhel8])
def test_semicolons_reach_the_kernel(tmp_path: Path, make: Any) -> None:
    """GRUB takes an unquoted ; for the end of the command."""
    host = make(tmp_path)
    done = bootloader.ensure(host, [SEVERAL], [])
    assert SEVERAL in [word.text for word in cmdline.parse(done.after)]
    assert not bootloader.ensure(host, [SEVERAL], []).changed
    written = [p.read_text() for p in tmp_path.rglob("*") if p.is_file() and "config_acs" in p.read_text()]
    assert written
    for text in written:
        for line in text.splitlines():
            assert "config_acs" not in line or re.search(r'"[^"]*config_acs=[^"]*;[^"]*;[^"]*"', line), line


def test_other_flags_of_pci_stay(tmp_path: Path) -> None:
    host = boot_trees.debian(tmp_path)
    bootloader.ensure(host, ["pci=realloc,noaer"], [])
    done = bootloader.ensure(host, [SEVERAL, "iommu=pt"], [])
    (word,) = [w for w in cmdline.parse(done.after) if w.name == "pci"]
    assert word.text == "pci=realloc,noaer," + SEVERAL[4:]
    newer = SEVERAL.replace("000x0", "111x1")
    done = bootloader.ensure(host, [newer], [])
    assert cmdline.parse(done.after)[-2].text == "pci=realloc,noaer," + newer[4:], "the former masks go"


def test_flags_of_two_owners_are_put_together() -> None:
    mine = iommu.cmdline(options(acs_paths=[PATH]), state())
    asked = {"kernel_args": kernel_args.CmdlineRequest(("pci=realloc",)), "iommu": mine}
    assert kernel_args.merge(asked) == ([], [f"pci=realloc,config_acs=1x111x1@{NIC_PORT}"], [])
    asked["kernel_args"] = kernel_args.CmdlineRequest(("pci=config_acs=0000000@0000:01:00.0",))
    assert len(kernel_args.merge(asked)[0]) == 1


def test_read_back_after_the_boot() -> None:
    """Linux 6.11 to 6.14 takes only the first of several bridges: what counts is what the bridges say."""
    bare = options(acs_paths=[PATH], acs="bare_metal", acs_method="kernel")
    done = pcie_space.bridge(enabled="0000000")
    first = {"16_00_0": done}
    assert not iommu.decide(bare, state("6.12.0")).problems, "not booted yet"
    found = iommu.decide(bare, state("6.12.0", cmdline="ro " + SEVERAL, configs=first))
    assert [p.value for p in found.problems] == [NIC_PORT, GPU_PORT]
    assert "only the first of several" in found.problems[0].fix and "0011101" in found.problems[0].message
    every = {**first, "18_00_0": done, "18_01_0": done}
    assert iommu.decide(bare, state("6.12.0", cmdline="ro " + SEVERAL, configs=every)) == iommu.Decision()
    (problem, *_rest) = iommu.decide(bare, state("6.16.0", cmdline="ro " + SEVERAL)).problems
    assert "dmesg" in problem.fix


def test_no_redirection_is_enough_where_the_kernel_can_no_more() -> None:
    word = f"pci=disable_acs_redir={ROOT};{NIC_PORT};{GPU_PORT}"
    half = pcie_space.bridge(enabled="0010001")
    configs = {"16_00_0": half, "18_00_0": half, "18_01_0": half}
    bare = options(acs_paths=[PATH], acs="bare_metal")
    assert iommu.decide(bare, state("6.8.0", cmdline="ro " + word, configs=configs)) == iommu.Decision()


# --- by hand


def test_older_kernels_write_the_register() -> None:
    found = iommu.decide(options(acs_paths=[PATH]), state("6.8.0"))
    assert [(s.key, s.before, s.after) for s in found.steps] == [
        (f"pcie-{NIC_PORT}", "ACS 0011101", "ACS 1x111x1"), ("pcie-boot", "not kept", "kept for 3 functions")]  # fmt: skip
    assert {s.disruption for s in found.steps} == {"none"}
    assert found.call.module == "nearmetal.rack.pcie_settings"
    assert not iommu.cmdline(options(acs_paths=[PATH]), state("6.8.0")).args


def test_what_is_kept_does_not_depend_on_what_is_found() -> None:
    """Before the IOMMU is on, and after the kernel set most of it: the same rule, or every boot would change it."""
    asked = options(acs_paths=[PATH], mode="passthrough")
    off = pcie_space.bridge(enabled="0000000")
    early = state("6.8.0", cmdline="ro", configs={"16_00_0": off, "18_00_0": off, "18_01_0": off})
    late = state("6.8.0")
    calls = [iommu.decide(asked, host).call.args for host in (early, late)]
    assert calls[0] == calls[1]


def test_lockdown_is_named_before_anything_is_done() -> None:
    found = iommu.decide(options(max_read_request=4096), state(lockdown="integrity"))
    (problem,) = found.problems
    assert "locked down (integrity)" in problem.message and "MaxReadReq 4096" in problem.message and found.call is None


def test_groups_that_promise_too_much_are_warned_of() -> None:
    found = iommu.decide(options(acs_paths=[PATH], acs="bare_metal", acs_method="runtime"), state())
    assert "promise an isolation" in found.warnings[0]


def test_read_requests_of_all_cards_or_of_those_named() -> None:
    found = iommu.decide(options(max_read_request=4096, relaxed_ordering=True), state())
    assert [s.after for s in found.steps if s.key == f"pcie-{NIC}"] == ["MaxReadReq 4096"]
    named = iommu.decide(options(relaxed_ordering=False, pcie_devices=[GPU]), state())
    assert [(s.key, s.after) for s in named.steps][0] == (f"pcie-{GPU}", "relaxed ordering off")
    (problem,) = iommu.decide(options(max_read_request=128, pcie_devices=["0000:77:00.0"]), state()).problems
    assert "no such function" in problem.message
    none = state()
    none["pci"] = [f for f in none["pci"] if f["address"] != NIC]
    assert "no mlx5 card" in iommu.decide(options(max_read_request=128), none).problems[0].message


class Machine(FileHost):
    """The machine on disk, with a setpci that does what the real one does. takes: bits that a device lets be changed."""

    def __init__(self, root: Path, said: Result | None = None, takes: int = 0xFFFF) -> None:
        super().__init__(str(root))
        self.said, self.takes = said, takes
        self.live = True
        self.ran: list[str] = []

    def _at(self, path: str, follow: bool = True) -> str:
        self.live, was = False, self.live
        try:
            return super()._at(path, follow)
        finally:
            self.live = was

    def write(self, path: str, text: str, mode: Any = None, in_place: bool = False, backup: bool = True) -> None:
        self.live = False
        super().write(path, text, mode, in_place, backup)
        self.live = True

    def run(self, argv: Sequence[str], timeout: float = 300, stdin: str = "") -> Result:
        self.ran.append(" ".join(argv))
        if self.said is not None:
            if self.said.rc == 127:
                raise Missing(argv[0], "command not found")
            return self.said
        path = Path(self._at(f"/sys/bus/pci/devices/{argv[2]}/config"))
        data = bytearray(path.read_bytes())
        for word in argv[3:]:
            match = re.fullmatch(r"(CAP_EXP\+8|ECAP_ACS\+6)\.w=([0-9a-f]{4}):([0-9a-f]{4})", word)
            assert match, word
            at = pcie_space.EXPRESS + 8 if match[1].startswith("CAP") else pcie_space.ACS + 6
            value, mask = int(match[2], 16), int(match[3], 16) & self.takes
            pcie_space.put(data, at, int.from_bytes(data[at : at + 2], "little") & ~mask | value & mask)
        path.write_bytes(data)
        return Result(0, "", "")


def on_disk(root: Path) -> None:
    tree = machine()
    configs = {p: tree.files.pop(p) for p in list(tree.files) if p.endswith("/config")}
    tree.write(root)
    for path, text in configs.items():
        (root / path.lstrip("/")).write_bytes(text.encode("utf-8", "surrogateescape"))


ASKED = {
    "functions": [
        {"address": NIC, "max_read_request": 4096, "relaxed_ordering": False, "acs": None},
        {"address": NIC_PORT, "max_read_request": None, "relaxed_ordering": None, "acs": "1x111x1"},
    ],
    "persist": True,
}


def test_module_writes_reads_back_and_keeps(tmp_path: Path) -> None:
    on_disk(tmp_path)
    host = Machine(tmp_path)
    dry = module.converge(host, ASKED, True)
    assert host.ran == [] and not (tmp_path / pcie_settings.RULES.lstrip("/")).exists()
    done = module.converge(host, ASKED, False)
    assert host.ran == [f"setpci -s {NIC_PORT} ECAP_ACS+6.w=005d:005d", f"setpci -s {NIC} CAP_EXP+8.w=5000:7010"]
    assert done["functions"][NIC_PORT]["acs"]["enabled"] == "1011101"
    assert (done["functions"][NIC]["max_read_request"], done["functions"][NIC]["max_payload"]) == (4096, 256)
    assert (dry["changed"], dry["steps"], dry["diff"]) == (True, done["steps"], done["diff"])
    text = host.read(pcie_settings.RULES)
    for command in host.ran:
        assert f"exec {command}'" in text
    assert not module.converge(host, ASKED, False)["changed"] and len(host.ran) == 2
    fewer = {"functions": ASKED["functions"][:1], "persist": True}
    assert module.converge(host, fewer, False)["changed"] and NIC_PORT not in host.read(pcie_settings.RULES)
    assert module.converge(host, {"functions": [], "persist": True}, False)["changed"] and not host.exists(pcie_settings.RULES)


def test_what_the_module_left_is_what_was_asked_of_the_role(tmp_path: Path) -> None:
    on_disk(tmp_path)
    asked = options(acs_paths=[PATH], acs_method="runtime", max_read_request=4096)
    before = state()
    call = iommu.decide(asked, before).call
    full = [{"acs": None, "max_read_request": None, "relaxed_ordering": None, **one} for one in call.args["functions"]]
    module.converge(Machine(tmp_path), {**call.args, "functions": full}, False)
    after = observe(FileHost(str(tmp_path)))
    assert iommu.decide(asked, {**before, "pcie": after["pcie"], "files": after["files"]}) == iommu.Decision()


@pytest.mark.parametrize(
    ("said", "message"),
    [(Result(127, "", ""), "install pciutils"), (Result(1, "", "setpci: No such register"), "No such register"),
     (Result(0, "", "pcilib: sysfs_write: Operation not permitted"), "not permitted")],
)  # fmt: skip
def test_setpcis_own_word(tmp_path: Path, said: Result, message: str) -> None:
    on_disk(tmp_path)
    with pytest.raises(HostError, match=message):
        module.converge(Machine(tmp_path, said), ASKED, False)


def test_a_device_that_does_not_take_it(tmp_path: Path) -> None:
    on_disk(tmp_path)
    with pytest.raises(HostError, match=f"not taken by the device: pcie-{NIC} still has MaxReadReq 512"):
        module.converge(Machine(tmp_path, takes=0x0FFF), ASKED, False)


def test_a_tree_gets_the_rule_only(tmp_path: Path) -> None:
    on_disk(tmp_path)
    done = module.converge(FileHost(str(tmp_path)), ASKED, False)
    assert [s["key"] for s in done["steps"]] == ["pcie-boot"]


# --- ATS


def firmware(current: str, following: str) -> dict[str, Any]:
    value = {"default": "False(0)", "current": current, "next": following}
    return {NIC: {"tool": "mstconfig", "values": {"ATS_ENABLED": value}, "error": ""}}


def test_ats_is_there() -> None:
    assert iommu.decide(options(ats=True, mode="passthrough"), state()) == iommu.Decision(), "Enable- under iommu=pt is right"
    assert iommu.cmdline(options(ats=True), state()).absent == ("pci=noats",)
    assert iommu.cmdline(options(ats=False), state()).args == ("pci=noats",)


def test_ats_off_although_translated_is_said() -> None:
    host = state(cmdline="ro intel_iommu=on iommu=nopt")
    host["iommu"]["types"] = {"DMA-FQ": 6}
    (warning,) = iommu.decide(options(ats=True, mode="translated"), host).warnings
    assert "Enable-" in warning and NIC in warning


def test_ats_hidden_by_the_firmware() -> None:
    hidden = {"19_00_0": pcie_space.registers()}
    (problem,) = iommu.decide(options(ats=True), state(configs=hidden)).problems
    assert "ATS_ENABLED: true" in problem.fix
    asked = options(ats=True, nic_firmware={"settings": {"ATS_ENABLED": True}, "cards": []})
    assert iommu.decide(asked, state(configs=hidden)).warnings and not iommu.decide(asked, state(configs=hidden)).problems
    loaded = state(configs=hidden, firmware=firmware("True(1)", "True(1)"))
    (step,) = iommu.decide(asked, loaded).steps
    assert step.disruption == "reboot"
    loaded["last_reboot"] = {"boot_id": "b1", "reason": "", "wanted": f"{step.id}={step.after}"}
    again = iommu.decide(asked, loaded)
    assert not again.steps and "rebooted for it" in again.problems[0].message, "no reboot loop"


def test_noats_among_other_flags_is_named() -> None:
    found = iommu.decide(options(ats=True), state(cmdline="ro pci=realloc,noats"))
    assert "noats" in found.problems[0].message
    assert not iommu.decide(options(ats=True), state(cmdline="ro pci=noats")).problems, "goes with the next boot"


def test_intent_that_makes_no_sense() -> None:
    paths = [{"gpu": "1a:00.0", "nic": NIC}, {"gpu": NIC, "nic": NIC}, PATH, dict(PATH)]
    found = iommu.problems(options(acs_paths=paths, mode="off"))
    assert [p.variable for p in found] == ["iommu_acs", *["iommu_acs_paths"] * 3]
    off = state()
    off["iommu"]["units"] = []
    assert "no IOMMU is in use" in iommu.decide(options(acs_paths=[PATH]), off).problems[0].message


def test_snapshots_without_our_section_are_fine() -> None:
    host = observe(SnapshotHost(trees.build().files, live=True))
    assert host["pcie"] == {} and iommu.decide(options(), host) == iommu.Decision()
