"""Contents outside the message: small ones are read, large ones stay where they are, in other files or in it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.external_data_helper import load_external_data_for_model
from onnx_models import installed, save
from small_models import small

import simdevice as sd
from simdevice.cli import _run
from simdevice.errors import FileFormatError
from simdevice.frontends.onnx.wire import LARGE, skimmed

BODY = """r = Reshape(x, to)  s = Slice(r, starts, ends, axes)  p = Pad(s, pads)  m = MatMul(p, w)
          y = Squeeze(m, first)"""
STORED: dict[str, Any] = {
    "to": np.array([1, -1, 64]),
    "starts": np.array([1]),
    "ends": np.array([5]),
    "axes": np.array([1]),
    "pads": np.array([0, 0, 0, 0, 2, 0]),
    "w": np.ones((64, 2000), np.float32),
    "first": np.array([0]),
}


def with_stored(folder: Path, text: str, stored: dict[str, Any]) -> ModelProto:
    model = onnx.load(save(folder, text))
    model.graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in stored.items())
    return model


def outside(folder: Path, **change: Any) -> str:
    """Everything stored is in a file beside the model, `change` in the place that it says of `to`."""
    model = with_stored(folder, f"g (float[16, 32] x) => (float[N, 2000] y) {{ {BODY} }}", STORED)
    path = folder / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="model.onnx.data", size_threshold=0)
    if change:
        model = onnx.load(path, load_external_data=False)
        (to,) = (t for t in model.graph.initializer if t.name == "to")
        entries = {entry.key: entry.value for entry in to.external_data} | change
        del to.external_data[:]
        for key, value in entries.items():
            if value is not None:
                to.external_data.add(key=key, value=str(value))
        path.write_bytes(model.SerializeToString())
    return str(path)


def test_shapes_and_axes_outside_the_file_are_read(tmp_path: Path) -> None:
    path = outside(tmp_path)
    trace, ran = sd.trace(path), sd.trace(path, shapes="run")
    assert trace.unknown() == {}
    # 16 x 32 as 1 x 8 x 64, of which rows 1 to 4, and two rows of zeros
    (product,) = (op for op in trace.ops if op.name == "onnx.MatMul")
    assert product.outputs[0].shape == (1, 6, 2000)
    assert product.flops == 2 * 6 * 64 * 2000
    assert [op.signature for op in trace.ops] == [op.signature for op in ran.ops]


@pytest.mark.parametrize(
    ("holder", "domain"), [("Constant in the graph", ""), ("Constant in a body", ""), ("function", "local")]
)
def test_constants_outside_the_file_are_read_wherever_they_are(holder: str, domain: str, tmp_path: Path) -> None:
    constant = "to = Constant<value = int64[2] {4, 3}>()  y = Reshape(x, to)"
    texts = {
        "Constant in the graph": f"g (float[12] x) => (float[M, N] y) {{ {constant} }}",
        "Constant in a body": f"""g (float[12] x) => (float[M, N] y)
            {{ c = Constant<value = bool {{1}}>()
               y = If<then_branch = t () => (float[M, N] y) {{ {constant} }},
                      else_branch = e () => (float[M, N] z) {{ z = Unsqueeze(x, c) }}>(c) }}""",
        "function": f"""g (float[12] x) => (float[M, N] y) {{ y = local.shaped(x) }}
            <domain: "local", opset_import: ["" : 20]> shaped (x) => (y) {{ {constant} }}""",
    }
    path = Path(save(tmp_path, texts[holder]))
    model = onnx.load(path)
    moved = []

    def move(nodes: Any) -> None:
        for node in nodes:
            for attribute in node.attribute:
                move(attribute.g.node)
                if attribute.name == "value" and attribute.t.dims == [2]:
                    attribute.t.ClearField("int64_data")
                    attribute.t.ClearField("raw_data")
                    attribute.t.data_location = TensorProto.EXTERNAL
                    attribute.t.external_data.add(key="location", value="sizes.bin")
                    moved.append(attribute.t)

    move(model.graph.node)
    for function in model.functions:
        move(function.node)
    assert len(moved) == 1
    path.write_bytes(model.SerializeToString())
    (tmp_path / "sizes.bin").write_bytes(np.array([4, 3]).tobytes())
    trace = sd.trace(str(path))
    assert trace.unknown() == {}
    assert trace.ops[-1].outputs[0].shape == (4, 3)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"location": "/etc/passwd"}, r"keeps 'to' in '/etc/passwd': expected a file in the model's own folder, .*"),
        ({"location": "../model.onnx"}, r"keeps 'to' in '\.\./model\.onnx': expected a file in .*"),
        ({"location": "link/secret"}, r"keeps 'to' in 'link/secret': expected a file in .*"),
        ({"location": ""}, r"keeps 'to' in '': expected a file in .*"),
        ({"location": "a\0b"}, r"keeps 'to' in 'a\\x00b': expected a file in .*"),
        ({"location": "none.bin"}, r"keeps 'to' in 'none\.bin', which is missing from .*"),
        ({"location": "folder", "offset": 0}, r"keeps 'to' in .*folder: Is a directory"),
        ({"offset": "far"}, r"is damaged: tensor 'to' has offset 'far', expected a number"),
        ({"offset": -1}, r"is damaged: tensor 'to' has offset '-1', expected a number"),
        ({"offset": 10**15}, r".*model\.onnx\.data has [\d,]+ bytes, but 'to' ends at 1,000,000,000,000,024: damaged"),
        ({"length": 8}, r"is damaged: tensor 'to' holds 8 bytes, its type needs 24"),
    ],
    ids=str,
)
def test_a_place_that_is_none_is_one_line(change: dict[str, Any], said: str, tmp_path: Path, capsys: Any) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(64))
    (folder / "link").symlink_to(tmp_path)
    (folder / "folder").mkdir()
    path = outside(folder, **change)
    with pytest.raises(FileFormatError, match=rf"^{path}:? {said}$"):
        sd.trace(path)
    assert _run(["trace", path]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_without_a_length_the_type_says_it(tmp_path: Path) -> None:
    assert sd.trace(outside(tmp_path, length=None)).unknown() == {}


def test_a_cache_of_links_is_one_folder(tmp_path: Path) -> None:
    """Hugging Face's cache: both names link to files in another folder."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    blobs.mkdir()
    snapshot.mkdir()
    outside(blobs)
    for name, blob in (("model.onnx", "0a1b"), ("model.onnx.data", "2c3d")):
        (blobs / name).rename(blobs / blob)
        (snapshot / name).symlink_to(Path("../blobs") / blob)
    assert sd.trace(str(snapshot / "model.onnx")).unknown() == {}


# Large contents in the file stay there


def float_list(tensor: TensorProto) -> None:
    tensor.float_data.extend(numpy_helper.to_array(tensor).ravel().tolist())
    tensor.ClearField("raw_data")


def whole_list(tensor: TensorProto) -> None:
    tensor.int64_data.extend(numpy_helper.to_array(tensor).ravel().tolist())
    tensor.ClearField("raw_data")


FORMS: dict[str, tuple[Any, Callable[[TensorProto], None]]] = {
    "raw": (np.arange(64 * 2000, dtype=np.float32).reshape(64, 2000), lambda tensor: None),
    "floats": (np.arange(64 * 2000, dtype=np.float32).reshape(64, 2000), float_list),
    "whole": (np.arange(64 * 2000).reshape(64, 2000), whole_list),
    "small": (np.arange(100, dtype=np.float32).reshape(4, 25), lambda tensor: None),
}


@pytest.mark.parametrize("to_run", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("nested", [False, True])
def test_a_skimmed_file_is_the_file_without_large_contents(
    form: str, nested: bool, to_run: bool, tmp_path: Path
) -> None:
    array, store = FORMS[form]
    tensor = numpy_helper.from_array(array, "w")
    store(tensor)
    tensor.doc_string = "after its contents"
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    result = [helper.make_tensor_value_info("y", kind, array.shape)]
    inner = helper.make_graph([helper.make_node("Identity", ["w"], ["y"])], "inner", [], result, [tensor])
    graph = inner
    if nested:
        branches = {"then_branch": inner, "else_branch": inner}
        condition = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
        graph = helper.make_graph([helper.make_node("If", ["c"], ["y"], **branches)], "outer", [condition], result)
    path = tmp_path / "model.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.save(model, path)
    message = skimmed(path, to_run=to_run)
    rest = ModelProto.FromString(message)
    if form == "small" or (form == "whole" and to_run):
        assert rest == model
        return
    assert len(message) < LARGE
    if form != "whole":  # onnx's own reading of what the tensor says gives the same numbers
        load_external_data_for_model(rest, str(tmp_path))
        found = rest.graph.node[0].attribute[0].g if nested else rest.graph
        (read,) = found.initializer
        assert read.raw_data == array.tobytes()
        assert read.doc_string == tensor.doc_string


def test_a_shipped_file_is_whole_again_once_its_contents_are_read() -> None:
    path = installed("magika") / "models/standard_v3_3/model.onnx"
    model = ModelProto.FromString(skimmed(path, to_run=True))
    left = [t for t in model.graph.initializer if t.data_location == TensorProto.EXTERNAL]
    assert left
    load_external_data_for_model(model, str(path.parent))
    for tensor in left:
        tensor.ClearField("data_location")
    assert model == onnx.load(path)


MEASURED = """
import resource, sys
import simdevice as sd
trace = sd.trace(sys.argv[1], shapes=sys.argv[2])
print(trace.weight_bytes, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def measured(path: Path, shapes: str) -> tuple[int, int]:
    """Weight bytes, and the memory that a process of its own held at most."""
    command = [sys.executable, "-c", MEASURED, str(path), shapes]
    weights, peak = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return int(weights), int(peak)


@pytest.mark.slow
def test_a_large_file_needs_little_more_memory_than_a_small_one(tmp_path: Path) -> None:
    paths = {}
    for name, size in (("small", 8), ("large", 2048)):
        stored = {f"w{i}": np.full((size, size), i, np.float32) for i in range(16)}
        chain = "  ".join(f"x{i + 1} = MatMul(x{i}, w{i})" for i in range(16))
        text = f"g (float[1, {size}] x0) => (float[1, {size}] x16) {{ {chain} }}"
        paths[name] = tmp_path / f"{name}.onnx"
        onnx.save(with_stored(tmp_path, text, stored), paths[name])
    contents = paths["large"].stat().st_size
    for shapes, most in (("infer", 0.5), ("run", 1.3)):
        (_, empty), (weights, peak) = measured(paths["small"], shapes), measured(paths["large"], shapes)
        assert weights == 16 * 4 * 2048**2
        assert peak - empty < most * contents, shapes


# A decoder as generative-AI builders write it: everything outside, lengths from the mask

LAYER = """
    q@ = MatMul(n@, wq@)  k@ = MatMul(n@, wk@)  v@ = MatMul(n@, wv@)
    a@, present_k@, present_v@ = com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 2, do_rotary = 1>
        (q@, k@, v@, past_k@, past_v@, lengths, total, cosine, sine)
    o@ = MatMul(a@, wo@)
    m@, , , h@ = com.microsoft.SkipSimplifiedLayerNormalization(r@, o@, after@)
    g@ = MatMul(m@, wg@)  u@ = MatMul(m@, wu@)  s@ = Sigmoid(g@)  t@ = Mul(g@, s@)  c@ = Mul(t@, u@)
    d@ = MatMul(c@, wd@)
    n#, , , r# = com.microsoft.SkipSimplifiedLayerNormalization(h@, d@, before#)
"""


def decoder(folder: Path) -> str:
    """small_models' Llama: 2 layers of width 64, 4 heads of 16 over 2, 128 inside, 256 words."""
    layers = "".join(LAYER.replace("@", str(i)).replace("#", str(i + 1)) for i in range(2))
    caches = [f"{kv}{i}" for i in range(2) for kv in ("k", "v")]
    past = ", ".join(f"float[B, 2, P, 16] past_{name}" for name in caches)
    present = ", ".join(f"float[B, 2, T, 16] present_{name}" for name in caches)
    text = f"""g (int64[B, S] ids, int64[B, T] mask, {past}) => (float[B, S, 256] logits, {present})
        {{ summed = ReduceSum(mask, one)  before_last = Sub(summed, one)  lengths = Cast<to = 6>(before_last)
           shape = Shape(mask)  axis = Gather(shape, place)  total = Cast<to = 6>(axis)
           r0 = Gather(words, ids)  n0 = SimplifiedLayerNormalization<axis = -1>(r0, before0) {layers}
           logits = MatMul(n2, head) }}"""
    sizes = {"wq": (64, 64), "wk": (64, 32), "wv": (64, 32), "wo": (64, 64), "after": (64,)}
    sizes |= {"wg": (64, 128), "wu": (64, 128), "wd": (128, 64), "before": (64,)}
    stored: dict[str, Any] = {f"{n}{i}": np.ones(s, np.float32) for n, s in sizes.items() for i in range(2)}
    stored |= {"before2": np.ones(64, np.float32), "words": np.ones((256, 64), np.float32)}
    stored |= {"head": np.ones((64, 256), np.float32), "one": np.array([1]), "place": np.array(1)}
    stored |= {name: np.ones((64, 8), np.float32) for name in ("cosine", "sine")}
    path = folder / "model.onnx"
    model = with_stored(folder, text, stored)
    onnx.save(model, path, save_as_external_data=True, location="model.onnx.data", size_threshold=0)
    return str(path)


@pytest.mark.parametrize(("new", "past"), [(12, 0), (1, 11)])
def test_a_decoder_with_everything_outside_costs_what_pytorchs_does(new: int, past: int, tmp_path: Path) -> None:
    path = decoder(tmp_path)
    # before the first token there is no past: sizes of 0 are given as arrays
    cache = {f"past_{kv}{i}": np.zeros((1, 2, past, 16), np.float32) for kv in "kv" for i in range(2)}
    trace = sd.trace(path, dims={"S": new, "T": new + past}, inputs=cache)
    assert trace.unknown() == {}
    # a decode step's products are those of one token
    whole = sd.trace(small("llama", "meta"), flop_counter=True)
    assert sum(p.flops for op in trace.ops for p in op.cost.products) * 12 == (whole.origin.flop_counter or 0) * new
    # words are read per token; more than the weights are two rotary tables' rows of 8 numbers in two layers, and 8
    # bytes in the mask's arithmetic
    assert trace.weight_bytes == whole.weight_bytes - (12 - new) * 64 * 4 + 2 * 2 * new * 8 * 4 + 8
