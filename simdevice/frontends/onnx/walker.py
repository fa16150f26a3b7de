"""Walk an ONNX graph: every node that a runtime would execute becomes a row; nothing is executed here."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from typing import Any

from numpy.typing import NDArray
from onnx import AttributeProto, GraphProto, NodeProto, SparseTensorProto, TypeProto, defs, helper

from simdevice.costs.onnx import PARAMETERS
from simdevice.costs.onnx.unknown import UNKNOWN
from simdevice.errors import CaptureError, SimdeviceError, SizeError
from simdevice.frontends.describe import one_line
from simdevice.frontends.emitter import Emitter
from simdevice.frontends.onnx import control, fold, quantized, sequences, shapes
from simdevice.frontends.onnx.nodes import canonical_name, executed, reads, scope_of
from simdevice.frontends.onnx.operators import known
from simdevice.frontends.onnx.profiled import Profile
from simdevice.frontends.onnx.quantized import Readers
from simdevice.frontends.onnx.shapes import Schemas
from simdevice.frontends.onnx.values import Value, dtype_name, of_array, of_tensor, shape_of, tensors_of

__all__ = ["Environment", "GraphWalker"]

Environment = MutableMapping[str, Value]


class GraphWalker:
    """Turns the nodes of a graph into rows.

    1. A node that no result needs is left out, as a runtime does.
    2. A node whose inputs follow from initializers, constants and shapes alone is folded: no row, and its result
       is a constant; of a weight (transposed, cast, reshaped) it is a weight.
    3. An operator that costs nothing (a reshape) hands its storage on; any other result is a new storage.
    4. Bodies are walked in place (`control`).
    5. A result without a shape is an unknown operator, named with its reason; what needs it is too.

    `profile` holds what one run saw; where it saw a node, its shapes count. `constants_are_weights`: of a file
    of unknown make everything stored is a weight; of our own export only parameters are. `declared` gives the types
    that the file states, where a node doesn't tell; `used` the names that some node or result reads; `numbers` a node's
    place among all, by its name.
    """

    def __init__(
        self,
        emitter: Emitter,
        schemas: Schemas,
        *,
        constants_are_weights: bool = True,
        profile: Profile | None = None,
        scopes: bool = True,
        declared: Callable[[], Mapping[str, TypeProto]] = dict,
        used: Collection[str] = (),
        numbers: Mapping[str, int] | None = None,
    ) -> None:
        self.emitter, self.schemas, self.profile = emitter, schemas, profile
        self._declared, self._used = declared, used
        self._constants_are_weights = constants_are_weights
        self._scopes, self._numbers = scopes, numbers or {}
        self.turns = self.walked = self.repeated = 0
        """Turns of loops walked so far, their nodes, and the rows of turns that were repeated."""
        self._needed: dict[int, tuple[GraphProto, list[NodeProto], Readers]] = {}  # a kept graph keeps its id

    def fresh(self, shape: tuple[int, ...] | None, dtype: str, **known: Any) -> Value:
        """A value of its own storage."""
        return Value(shape, dtype, self.emitter.storage(), **known)

    def walk(self, graph: GraphProto, outer: Environment, inputs: Sequence[Value]) -> list[Value]:
        """Emit a graph called with these inputs, in sight of `outer`; gives its outputs."""
        own: dict[str, Value] = {}
        env: Environment = ChainMap(own, *getattr(outer, "maps", [outer]))
        for proto, value in zip(graph.input, inputs, strict=False):
            own[proto.name] = value
        for tensor in graph.initializer:
            if tensor.name not in own:
                own[tensor.name] = of_tensor(tensor, self.emitter.storage(), is_weight=self._constants_are_weights)
        for sparse in graph.sparse_initializer:
            own[sparse.values.name] = self._sparse(sparse)
        nodes, readers = self._executed(graph)
        for node in nodes:
            with self.emitter.at(self._numbers.get(node.name, -1)):
                self.node(node, env, readers)
        for result in graph.output:
            quantized.flush(env.get(result.name))
        return [env[o.name] if o.name in env else Value(reason="it is never computed") for o in graph.output]

    def node(self, node: NodeProto, env: Environment, readers: Readers) -> None:
        """Take one node: bind its outputs, and emit a row unless it is folded or free of shape."""
        inputs = [_found(name, env) if name else None for name in node.input]
        try:
            if canonical_name(node) == "onnx.Constant":
                self.emitter.mark("folded")
                outputs = [self._constant(node)]
            elif control.handles(node):
                for name in reads(node):
                    quantized.flush(env.get(name))
                outputs = control.take(self, node, inputs, env)
            elif sequences.handles(node, inputs):
                for value in inputs:
                    quantized.flush(value)
                outputs = sequences.take(self, node, inputs)
            else:
                as_quantised = quantized.take(self, node, inputs, env, readers)
                outputs = as_quantised if as_quantised is not None else self._operator(node, inputs)
        except SizeError as error:
            raise SizeError(f"node {node.name!r} ({node.op_type}): {error}") from None
        except SimdeviceError:
            raise
        except Exception as error:  # a file may hold anything, a body without its graph for one
            what = f"{type(error).__name__}: {one_line(error)}"
            raise CaptureError(f"node {node.name!r} ({node.op_type}) can't be walked: {what}") from error
        for name, value in zip(node.output, outputs, strict=False):
            if name:
                env[name] = value

    def _constant(self, node: NodeProto) -> Value:
        tensor = fold.constant_of(node)
        if tensor is None:
            sparse = next((a.sparse_tensor for a in node.attribute if a.name == "sparse_value"), None)
            return Value(reason="a Constant without a tensor") if sparse is None else self._sparse(sparse)
        return of_tensor(tensor, self.emitter.storage(), is_weight=self._constants_are_weights)

    def _sparse(self, tensor: SparseTensorProto) -> Value:
        """Kept as a whole tensor: ONNX Runtime fills one at load."""
        dtype = dtype_name(tensor.values.data_type)
        return self.fresh(tuple(tensor.dims), dtype, is_weight=self._constants_are_weights, constant=True)

    def waiting(self, node: NodeProto, inputs: Sequence[Value | None], outputs: Sequence[Value]) -> Callable[[], None]:
        """What makes this node's row, later."""
        number = self.emitter.node

        def emit() -> None:
            with self.emitter.at(number):
                self.emit(node, inputs, outputs)

        return emit

    def _operator(self, node: NodeProto, inputs: list[Value | None]) -> list[Value]:
        if canonical_name(node) not in fold.QUESTIONS:
            for value in inputs:
                quantized.flush(value)
        outputs = self.types(node, inputs)
        if fold.is_foldable(node, inputs) or canonical_name(node) in fold.QUESTIONS:
            return self._folded(node, inputs, outputs)
        if inputs and canonical_name(node) not in fold.NEVER_FOLDED:  # contents of a given input, a loop's counter
            self._fill(outputs, fold.evaluate(node, inputs, self.schemas.opsets))
        self.emit(node, inputs, outputs)
        return outputs

    def _fill(self, outputs: list[Value], arrays: Sequence[NDArray[Any]] | None) -> None:
        """Known contents also tell a shape."""
        for value, array in zip(outputs, arrays or (), strict=False):
            known = of_array(array, value.storage)
            value.shape, value.dtype, value.data = known.shape, known.dtype or value.dtype, known.data

    def types(self, node: NodeProto, inputs: Sequence[Value | None]) -> list[Value]:
        """The node's outputs with their shapes; without one where none is to be had."""
        seen = self.profile.outputs(node) if self.profile is not None else None
        protos, reason = shapes.infer(node, inputs, self.schemas)
        blocked = next((v.reason for v in inputs if v is not None and not _usable(v)), "")
        operator = known(node)
        bounds = operator.stated if operator is not None else ()
        outputs = []
        for index, (name, proto) in enumerate(zip(node.output, protos, strict=False)):
            value = self._typed(proto)
            if (not _usable(value) or index in bounds) and name in self._declared():
                stated = self._typed(self._declared()[name])
                value = stated if _usable(stated) or not _usable(value) else value
            if not value.resolved:
                value.reason = blocked or f"node {node.name!r} ({node.op_type}): {reason or shapes.DATA_DECIDES}"
            outputs.append(value)
        if seen is not None and len(seen) == len([o for o in node.output if o]):
            named = (value for name, value in zip(node.output, outputs, strict=False) if name)
            for value, (shape, dtype) in zip(named, seen, strict=False):
                value.shape, value.dtype, value.is_sequence = shape, value.dtype or dtype, False
        return outputs

    def _typed(self, proto: TypeProto | None) -> Value:
        value = self.fresh(None, "")
        if proto is None:
            return value
        value.proto = proto
        if proto.HasField("tensor_type"):
            value.dtype, value.shape = dtype_name(proto.tensor_type.elem_type), shape_of(proto)
        elif proto.HasField("sequence_type") or proto.HasField("optional_type"):
            value.is_sequence = True
        return value

    def _folded(self, node: NodeProto, inputs: Sequence[Value | None], outputs: list[Value]) -> list[Value]:
        """Constants; contents where they are small, an unresolved shape where only they would tell it."""
        asks_shape = canonical_name(node) in fold.QUESTIONS
        source = inputs[0].shape if asks_shape and inputs[0] is not None else None
        known = fold.of_shape(node, source) if source is not None else None
        arrays = known or fold.evaluate(node, inputs, self.schemas.opsets)
        is_weight = not asks_shape and any(v is not None and v.is_weight for v in inputs)
        self._fill(outputs, arrays)
        for value in outputs:
            value.constant, value.is_weight = not asks_shape or value.resolved, is_weight
        self.emitter.mark("folded" if all(value.constant for value in outputs) else "free")
        return outputs

    def emit(self, node: NodeProto, inputs: Sequence[Value | None], outputs: Sequence[Value]) -> None:
        """One row. A free operator's result is its first input's storage."""
        name, scope = canonical_name(node), scope_of(node) if self._scopes else ""
        formal, reads = self._reads(node, inputs)
        pairs = [(o, t) for o, value in zip(node.output, outputs, strict=False) if o for t in tensors_of(value)]
        named = [t for o, t in pairs if t.resolved or o in self._used or o == node.output[0]]  # no mask nobody wants
        open_ = next((v for v in (*reads, *named) if not v.resolved), None)
        if open_ is not None:
            known = [v.known() for v in reads if v.resolved]
            written = [v.known() for v in named if v.resolved]
            reason = self._why(node, name, open_, reads)
            self.emitter.unresolved(name, known, written, reason, scope=scope)
            return
        attributes = self._attributes(node, inputs, name, formal)
        results = [v.known() for v in named]
        try:
            free = self.emitter.is_free(name, [v.known() for v in reads], results, attributes)
        except _REFUSED as error:  # a file may hold anything
            reason = f"node {node.name!r} ({node.op_type}): its cost rule doesn't take these tensors: {error}"
            self.emitter.unresolved(name, [v.known() for v in reads], results, reason, scope=scope)
            return
        if free and reads:
            for value in named:
                value.storage, value.is_weight = reads[0].storage, reads[0].is_weight
            results = [v.known() for v in named]
        self.emitter.call(name, [v.known() for v in reads], results, attributes, scope=scope)

    @staticmethod
    def _why(node: NodeProto, name: str, open_: Value, reads: Sequence[Value]) -> str:
        """The reason of a row that some tensor without a shape keeps open: the operator's own, if it has one."""
        here = f"node {node.name!r} "
        if name in UNKNOWN and all(value.resolved for value in reads):
            return f"{here}({node.op_type}): {UNKNOWN[name]}"
        return open_.reason if open_.reason.startswith(here) else f"{here}({node.op_type}): after {open_.reason}"

    def _reads(self, node: NodeProto, inputs: Sequence[Value | None]) -> tuple[list[str], list[Value]]:
        """The tensors a node reads with their formal names; parameters whose contents are known are none."""
        parameters = PARAMETERS.get(canonical_name(node), {})
        formal, reads = [], []
        for index, value in enumerate(inputs):
            if value is None or (index in parameters and value.data is not None):
                continue
            for tensor in tensors_of(value):
                formal.append(self._formal(node, index))
                reads.append(tensor)
        return formal, reads

    def _formal(self, node: NodeProto, index: int) -> str:
        schema = self.schemas.of(node)
        if schema is None or not schema.inputs:
            operator = known(node)
            return operator.formal(index) if operator is not None else str(index)
        is_variadic = schema.inputs[-1].option == defs.OpSchema.FormalParameterOption.Variadic
        if index >= len(schema.inputs) and not is_variadic:  # a damaged file's input is nobody's
            return str(index)
        name: str = schema.inputs[min(index, len(schema.inputs) - 1)].name
        return name

    def _attributes(
        self, node: NodeProto, inputs: Sequence[Value | None], name: str, formal: Sequence[str]
    ) -> tuple[tuple[str, Any], ...]:
        """What the operator's cost rule declares: attributes, their defaults, parameters by input, `given`."""
        declared = self.emitter.costs.attributes(name)
        if not declared:
            return ()
        values: dict[str, Any] = {"given": tuple(formal)}
        schema: defs.OpSchema | None = self.schemas.of(node)
        for a in node.attribute:
            if a.name in declared:
                values[a.name] = _plain(helper.get_attribute_value(a))
        for index, parameter in PARAMETERS.get(name, {}).items():
            value = inputs[index] if index < len(inputs) else None
            if parameter in declared and value is not None and value.data is not None:
                values[parameter] = _plain(value.data.tolist())
        out = []
        for key in declared:
            if key not in values and schema is not None and key in schema.attributes:
                default = schema.attributes[key].default_value
                if default.type != AttributeProto.UNDEFINED:
                    values[key] = _plain(helper.get_attribute_value(default))
            out.append((key, values.get(key)))
        return tuple(out)

    def _executed(self, graph: GraphProto) -> tuple[list[NodeProto], Readers]:
        """The nodes that some output of the graph needs, in order, and who reads each name."""
        known = self._needed.get(id(graph))
        if known is None:
            nodes = executed(graph)
            known = self._needed[id(graph)] = (graph, nodes, quantized.readers_of(graph, nodes))
        return known[1:]


_REFUSED = (AttributeError, IndexError, KeyError, TypeError, ValueError, ZeroDivisionError)
"""What a cost rule raises on tensors that its operator doesn't take."""


def _found(name: str, env: Environment) -> Value:
    return env[name] if name in env else Value(reason=f"{name!r}, which nothing computes")


def _usable(value: Value) -> bool:
    return value.resolved or value.is_sequence


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, (list, tuple)):
        return tuple(_plain(v) for v in value)
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
