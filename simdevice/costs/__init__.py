"""What an operator needs: FLOPs and bytes as pure functions of shapes and dtypes, one rule per operator."""

from simdevice.costs import aten as aten
from simdevice.costs import device as device
from simdevice.costs import fhe as fhe
from simdevice.costs import onnx as onnx
from simdevice.costs.registry import Costs, Rule, base_name, register, registered, streamed

__all__ = ["Costs", "Rule", "base_name", "register", "registered", "streamed"]
