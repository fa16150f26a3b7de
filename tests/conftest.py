"""For all tests: no test fails because the machine is busy."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("simacc", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("simacc")
