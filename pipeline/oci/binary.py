"""Which machine a binary is for, by its first bytes.

Format: the ELF header of the System V gABI, chapter 4; machine numbers from its registry.
"""

from __future__ import annotations

HEADER = 20  # bytes that `elf_machine` looks at
ELF = b"\x7fELF"
_64_BIT = 2
_BYTE_ORDER = {1: "little", 2: "big"}  # EI_DATA

# (EI_CLASS, EI_DATA, e_machine) of the machines that an image can be for.
_HOSTS = {"aarch64": (2, 1, 183), "x86_64": (2, 1, 62)}
_NAMES = {3: "x86", 20: "PowerPC", 21: "PowerPC64", 22: "S390", 40: "ARM", 62: "x86-64",
          183: "AArch64", 243: "RISC-V", 258: "LoongArch"}  # fmt: skip
# Code that runs elsewhere than on the host's processor, so an image for any host may hold it.
_NOT_HOST = {190: "CUDA", 205: "Intel GT", 224: "AMD GPU", 247: "BPF"}


def elf_machine(start: bytes) -> tuple[int, int, int] | None:
    """Return (EI_CLASS, EI_DATA, e_machine), or None when `start` begins no ELF file."""
    if len(start) < HEADER or not start.startswith(ELF):
        return None
    order = _BYTE_ORDER.get(start[5])
    machine = int.from_bytes(start[18:20], "big" if order == "big" else "little")
    return start[4], start[5], machine


def is_host_binary(start: bytes) -> bool:
    """Whether `start` begins an ELF file that a host processor would run."""
    found = elf_machine(start)
    return found is not None and found[2] not in _NOT_HOST


def wrong_machine(start: bytes, machine: str) -> str:
    """Say what is wrong with a binary for `machine` (as `uname -m` says it); "" for nothing.

    Anything but ELF is fine: launchers for other systems are data here.
    """
    found = elf_machine(start)
    if found is None or found[2] in _NOT_HOST or found == _HOSTS.get(machine):
        return ""
    bits = 64 if found[0] == _64_BIT else 32
    order = _BYTE_ORDER.get(found[1], "unknown")
    name = _NAMES.get(found[2], "unknown")
    wanted = _HOSTS[machine][2] if machine in _HOSTS else "not known here"
    return (
        f"is a {bits}-bit {order}-endian binary for e_machine {found[2]} ({name}), "
        f"the image is {machine} ({wanted})"
    )
