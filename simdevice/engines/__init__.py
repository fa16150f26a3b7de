"""Engines: Program to Timeline. One contract, chosen by name or given as an object."""

from simdevice.engines.base import Engine, EngineState, Summing, check
from simdevice.engines.lookup import get, names

__all__ = ["Engine", "EngineState", "Summing", "check", "get", "names"]
