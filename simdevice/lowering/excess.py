"""What tiles load and store beyond what the operator reads and writes, by cause: closed forms of products and blocks.

loaded + stored = bytes read + bytes written + the sum of these terms, exactly; a machine that loads products' operands
only leaves out what is read beside them (a negative term).
"""

from __future__ import annotations

from collections import Counter

from simdevice.lowering.rates import Rates
from simdevice.lowering.tiling import blocking
from simdevice.lowering.work import Blocks, Stage
from simdevice.records import Product
from simdevice.units import ceil_div

__all__ = ["excess_bytes"]


def excess_bytes(stages: tuple[Stage, ...], rates: Rates) -> Counter[str]:
    """Bytes by cause:

    - `windows`: pixels under several windows and padding, or what a scatter adds up on its way out.
    - `inside`: what the operator makes and reads again itself (scores, gates).
    - `shared`: an operand that several items of a batch, or several products of the operator, read.
    - `blocks`: an operand read again for every block of the other one's rows or columns.
    - `rounding`: parts of a byte, block by block.
    - `left out`: what this machine does not load (see `operands` of the spec); negative.
    """
    terms: Counter[str] = Counter()
    for stage in stages:
        if isinstance(stage, Blocks):
            _of_product(stage, rates, terms)
    return Counter({cause: count for cause, count in terms.items() if count})


def _of_product(stage: Blocks, rates: Rates, terms: Counter[str]) -> None:
    product, cutting = stage.product, blocking(stage, rates)
    _, m_steps, n_steps, _ = cutting.steps
    for operand, whole, own, places in (
        ("a", product.a_loaded, product.a_bytes, product.a),
        ("b", product.b_loaded, product.b_bytes, product.b),
        ("out", product.out_stored, product.out_bytes, product.out),
    ):
        cause = "windows" if product.windowed == operand else "shared" if places else "inside"
        terms[cause] += whole - own
    terms["blocks"] += product.a_loaded * (n_steps - 1) + product.b_loaded * (m_steps - 1)
    terms["rounding"] += _rounding(product, cutting.block, cutting.steps)
    terms["left out"] += cutting.beside - stage.read_bytes


def _rounding(product: Product, block: tuple[int, int, int, int], steps: tuple[int, int, int, int]) -> int:
    """Each block's bytes are rounded up: the sum over the at most sixteen shapes of blocks, less the whole's bytes."""
    sizes = [
        [(step - 1, size), (1, total - (step - 1) * size)]
        for step, size, total in zip(steps, block, (product.batch, product.m, product.n, product.k), strict=True)
    ]
    total = -product.a_loaded * steps[2] - product.b_loaded * steps[1] - product.out_stored
    for batches, b in sizes[0]:
        for rows, m in sizes[1]:
            for columns, n in sizes[2]:
                total += batches * rows * columns * ceil_div(product.out_bits * b * m * n, 8)
                for depths, k in sizes[3]:
                    loaded = ceil_div(product.a_bits * b * m * k, 8) + ceil_div(product.b_bits * b * k * n, 8)
                    total += batches * rows * columns * depths * loaded
    return total
