"""What a machine is: validated descriptions and their loading from `configs/`."""

from simdevice.hardware.loading import config_root, host_names, link_names, load, load_host, load_link, names
from simdevice.hardware.specs import (
    AcceleratorSpec,
    DeviceSpec,
    Exact,
    HostSpec,
    LinkSpec,
    NullSpec,
    OffloadSpec,
    RooflineSpec,
    Spec,
)

__all__ = [
    "AcceleratorSpec",
    "DeviceSpec",
    "Exact",
    "HostSpec",
    "LinkSpec",
    "NullSpec",
    "OffloadSpec",
    "RooflineSpec",
    "Spec",
    "config_root",
    "host_names",
    "link_names",
    "load",
    "load_host",
    "load_link",
    "names",
]
