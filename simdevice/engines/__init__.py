"""Engines: Program to Timeline. One contract, chosen by name."""

from simdevice.engines.base import Engine, EngineState

__all__ = ["Engine", "EngineState"]
