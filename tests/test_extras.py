"""What an extra would bring is said in one line."""

from __future__ import annotations

import json

import pytest

from simdevice.errors import SimdeviceError
from simdevice.extras import extra


def test_an_installed_module_is_given() -> None:
    assert extra("json", "anything", "a test") is json


def test_a_missing_one_names_its_extra() -> None:
    with pytest.raises(SimdeviceError, match=r"^a picture needs no_such_module: pip install 'simdevice\[plots\]'$"):
        extra("no_such_module.figure", "plots", "a picture")
