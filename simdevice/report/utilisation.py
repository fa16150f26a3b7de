"""The names under which sweeps and others know `simdevice.analysis`. It computes nothing."""

from simdevice.analysis.occupancy import buffer_peak
from simdevice.analysis.utilisation import components, hot_spot

__all__ = ["buffer_peak", "components", "hot_spot"]
