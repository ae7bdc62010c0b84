"""Entries grown at random from the language's own grammar: most of them nearly valid, many of them valid.

Unlike damage to entries that somebody wrote, growth puts features together that nobody thought of together.
"""

from __future__ import annotations

import random
from typing import Any

INTEGERS, FLAGS, SEQUENCES, WORDS = "integers", "flags", "sequences", "words"


class Grower:
    """Grows one entry. `slip` is how often a production is not what its place asks for."""

    def __init__(self, draw: random.Random, slip: float) -> None:
        self._draw = draw
        self._slip = slip
        self._names: dict[str, list[str]] = {INTEGERS: [], FLAGS: [], SEQUENCES: [], WORDS: []}
        self._maybes: list[str] = []
        self._others: list[str] = []
        self._optional: list[str] = []
        self._tensors: list[str] = []

    def entry(self) -> dict[str, Any]:
        """A whole entry of the family `demo`."""
        draw = self._draw
        forall, params = self._indices(), self._params()
        types = self._families()
        inputs = self._inputs(forall, types)
        outputs = self._outputs(types, inputs)
        lets = {f"v{at}": self.integer(3) for at in range(draw.choice([0, 0, 1, 2]))}
        rules = [self.flag(3) for _ in range(draw.choice([0, 0, 1, 2]))]
        solvers = [name for name, tensor in inputs.items() if "P" in tensor["shape"]]
        if solvers and draw.random() < 0.5:
            rules.append(f"P > 0 if present({self._one(*solvers)}) else True" if not self._slips() else "P > 0")
        signature = {
            "forall": forall,
            "params": params,
            "inputs": inputs,
            "outputs": outputs,
            "types": types,
            "let": lets,
            "shape_rules": rules,
        }
        if draw.random() < 0.05:
            del signature["inputs"]
        if draw.random() < 0.1 and "T" in forall:
            signature["dtype_combos"] = [{"T": "float16"}, {"T": self._one("float32", "float16", "int8")}]
            if "dtype" in params and "type" in params["dtype"]:
                other = {"dtype": self._one("float16", "float32", None)}
                signature["dtype_combos"] = [{"T": "float16", "dtype": None}, {"T": "float32", **other}]
        entry = {
            "family": "demo",
            "status": self._one("spec-only", "implemented"),
            "signature": {
                name: part
                for name, part in signature.items()
                if part or name == "inputs" or (name == "outputs" and draw.random() < 0.5)
            },
            "workloads": self._rows(forall, params, inputs),
            "roofline": self._roofline(),
        }
        if draw.random() < 0.1:
            stage = {"name": "first", self._one("op", "kernel"): self._one("GEMMFwdOp", "ScaleFwdOp", "relu")}
            entry["composition"] = {
                "kind": "composite",
                "stages": [stage, {"name": self._one("second", "first"), "kernel": "k"}],
            }
        return entry

    def _one(self, *choices: Any) -> Any:
        return self._draw.choice(choices)

    def _slips(self) -> bool:
        return self._draw.random() < self._slip

    # ---- declarations

    def _indices(self) -> dict[str, str]:
        found = {"N": "Dim"}
        if self._draw.random() < 0.7:
            found["M"] = "Dim"
        if self._draw.random() < 0.4:
            found["B"] = "Shape"
            self._names[SEQUENCES].append("B")
        if self._draw.random() < 0.6:
            found["T"] = self._one("DType[float16 | float32]", "DType[float16 | bfloat16 | float32]", "DType[int32]")
        if self._slips():
            found[self._one("N2", "sizes", "x0", "K")] = self._one("Dim", "Seq[Int]", "DType[half]", "dim", "Shape")
        self._names[INTEGERS] += [name for name in ("N", "M") if name in found]
        return found

    def _params(self) -> dict[str, Any]:
        kinds = {
            "flag": ("bool", [False, True], FLAGS),
            "other": ("bool", [True], FLAGS),
            "k": ("int", [0, 1, 3, 16], INTEGERS),
            "mode": ("'sum' | 'mean'", ["sum", "mean"], WORDS),
            "dims": ("list[int]", [[], [0], [0, 1]], SEQUENCES),
            "dim": ("int | None", [None, 0, 2], None),
            "eps": ("float", [1.0e-6, 0.0], None),
            "layout": ("Layout", [{"Nopad": {}}], None),
            "fold": ("Fold", [{"flat": {}}], None),
            "dtype": ("float16 | float32 | None", [None, "float16"], None),
            "note": ("str", ["a", ""], None),
            "seed": ("torch.Generator | int | None", [None, 3], None),
            "how": ("SomeOptions | None", [None], None),
            "device": ("torch.device | str | None", [None, "cpu"], None),
            "scale": ("Number", [True, 2, 0.5], None),
            "tail": ("list[int] | tuple[int, ...]", [[], [3]], SEQUENCES),
            "pad": ("int | tuple[int, int] | 'keep'", [0, [1, 2], "keep"], None),
            "steps": ("list[int | None] | None", [None, [1, None]], None),
        }
        params = {}
        for name in self._draw.sample(list(kinds), self._draw.randrange(5)):
            kind, defaults, group = kinds[name]
            params[name] = {"type": kind, "default": self._draw.choice(defaults)}
            if self._draw.random() < 0.1:  # a construction-time tensor in its place
                params[name] = {"dtype": "float32", "shape": "[N]", **self._one({}, {"type": "torch.Tensor"})}
                params[name] |= self._one({}, {"optional": True}, {"default": None}, {"contiguous": True})
                continue
            if self._slips():
                params[name] = self._one(
                    {"type": kind}, {"type": kind, "default": "?"}, {"type": "Thing", "default": None}
                )
            if group:
                self._names[group].append(name)
            elif name in ("dim", "dtype"):
                self._maybes.append(name)
            elif name in ("scale", "pad", "steps"):
                self._others.append(name)
        return params

    def _families(self) -> dict[str, Any]:
        if not self._names[FLAGS] or self._draw.random() < 0.6:
            return {}
        cases: Any = {False: "[P, Q]", True: self._one("[Q, P]", "[P, Q, 1]", "[P + Q]", "[Q * 2, P]")}
        if self._slips():
            cases = self._one({True: "[P, Q]"}, {**cases, "maybe": "[P]"}, {False: "Mat[swap, P, Q]", True: "[P]"})
        if self._draw.random() < 0.4:
            cases = [{"when": key, "is": shape} for key, shape in cases.items()]
            cases = self._one(cases, cases, [{"when": "_", "is": "[P, Q]"}])
            if self._slips():
                cases.append(
                    self._one(
                        {"when": "_", "is": "[Q]"},
                        {"when": [True], "is": "[Q]"},
                        {"when": {"Nopad": "_"}, "is": "[Q]"},
                        {"when": {"Padded": {"block": 3}}, "is": "[Q]"},
                        {"when": None, "then": "[Q]"},
                        {"when": 1.5},
                        "[Q]",
                    )
                )
        match = self._one("swap", ["swap"])
        return {"Mat": {"params": {"swap": "Bool", "P": "Dim", "Q": "Dim"}, "match": match, "cases": cases}}

    def _dtype(self, has_index: bool) -> str:
        choices = ["float32", "float16", "int64"] + ["T", "T"] * has_index
        if "dtype" in self._maybes and has_index:
            choices.append("coalesce_dtype(dtype, T)")
        return self._one(*choices, *(["half", "N"] if self._slips() else []))

    def _shape(self, types: dict[str, Any]) -> str:
        if types and self._draw.random() < 0.4:
            flag = self._one(*self._names[FLAGS], *(["True"] if self._slips() else []))
            return f"Mat[{flag}, {self.integer(1)}, {self.integer(1)}]"
        axes = [self.integer(2) for _ in range(self._draw.randrange(4))]
        if "B" in self._names[SEQUENCES] and self._draw.random() < 0.4:
            axes.insert(self._draw.randrange(len(axes) + 1), "*B")
        return f"[{', '.join(axes)}]"

    def _inputs(self, forall: dict[str, str], types: dict[str, Any]) -> dict[str, Any]:
        solving = [*(["*B"] if "B" in forall else []), "N", *(["M"] if "M" in forall else [])]
        inputs: dict[str, Any] = {
            "x": {"dtype": "T" if "T" in forall else "float32", "shape": f"[{', '.join(solving)}]"}
        }
        self._tensors.append("x")
        for name in ("a", "b", "c")[: self._draw.randrange(4)]:
            made: dict[str, Any] = {"dtype": self._dtype("T" in forall), "shape": self._shape(types)}
            presence = self._draw.random()
            if presence < 0.3:
                made["optional"] = True
            elif presence < 0.45 and self._names[FLAGS]:
                made["optional"] = self.flag(1, shapes=False)
            if made.get("optional") is True and self._draw.random() < 0.5:  # an index that only optional tensors have
                forall["P"] = "Dim"
                made["shape"] = self._one("[P]", "[P, N]", "[2 * P + 1]", *(["[P * P]"] if self._slips() else []))
            if self._draw.random() < 0.2:
                made["mutated"] = True if not self._names[FLAGS] else self._one(True, self.flag(1, shapes=False))
                if self._draw.random() < 0.4:
                    made["write_only"] = True
            if self._draw.random() < 0.1:
                quote = "'start'"
                made |= {
                    "dtype": "int32",
                    **self._one(
                        {"shape": "[N, 2]", "values": "topk_ids(N, 2, 8)"},
                        {"shape": "[3]", "values": "as_tensor((1, 2, 3))"},
                        {"shape": "[k]", "values": "as_tensor(repeat(2, k))"},
                        {
                            "shape": f"[{self._one('4', 'k + 1', '3')}]",
                            "values": f"{self._one('prefix_sum', 'offsets', 'starts', 'running_sums')}((1, 2, 3))",
                        },
                        {"shape": "[N, M]", "values": "paged_block_table(N, M, 999)"},
                        {"shape": "[N, M]", "values": "random_ids(N, M, 9)"},
                        {"shape": "[N]", "values": "sample_indices(N, N + 1)"},
                        {"shape": "[N, 2]", "values": f"full({self._one('(N, 2)', '(N, 2)', 'N')}, 3)"},
                        {"shape": "[N]", "values": f"key_windows((N, 2), 0, N, {self._one('mode', quote)})"},
                        {"shape": "[1, N, 1, 2]", "values": "causal_topk_indices(1, N, 1, 2, 5, 0, 1)"},
                        {"shape": "[2, 1, 2]", "values": "attn.sparse_topk_positions((N, 3), 1, 2)"},
                        {"shape": "[3]", "values": "moe.layout_metadata(layout, 3, 3)"},
                    ),
                }
                made["requires"] = [
                    self._one(
                        "in_range(0, 999)",
                        f"in_range(0, 999 if {self.flag(1)} else N)",
                        "in_range(0, 3)",
                        "prefix_offsets(6)",
                        "sums_to(6)",
                        f"exclusive_prefix_of({self._one('a', 'b', '(1, 2)')})",
                        f"indices_within({self._one('a', '(0, 2)')})",
                        "chunk_offsets_of((0, 3), 2)",
                        "moe.layout_valid(layout, N, 3)",
                    )
                ]
            if self._draw.random() < 0.1:
                made[self._one("contiguous", *(["colour"] if self._slips() else []))] = True
            if "optional" in made and self._draw.random() < 0.2 or self._slips():
                made["kw_only"] = True
            inputs[name] = made
        if self._draw.random() < 0.05:
            inputs["out"] = {
                "dtype": inputs["x"]["dtype"],
                "shape": inputs["x"]["shape"],
                **dict.fromkeys(("mutated", "write_only", "kw_only"), not self._slips()),
            }
        ordered = sorted(inputs, key=lambda name: "optional" in inputs[name] and not self._slips())
        ordered.sort(key=lambda name: inputs[name].get("kw_only", False) and not self._slips())
        for name in ordered:
            self._tensors.append(name)
            if "optional" in inputs[name]:
                self._optional.append(name)
        return {name: inputs[name] for name in ordered}

    def _outputs(self, types: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
        outputs = {}
        if "out" in inputs and not self._slips():
            outputs["w"] = {"dtype": inputs["out"]["dtype"], "shape": inputs["out"]["shape"], "alias": "out"}
        elif any("mutated" in tensor for tensor in inputs.values()) and self._draw.random() < 0.2:
            return {}
        for name in ("y", "z")[: self._draw.choice([1, 1, 2])]:
            made: dict[str, Any] = {"dtype": self._one("float32", inputs["x"]["dtype"]), "shape": self._shape(types)}
            choice = self._draw.random()
            if choice < 0.15:
                made["nullable"] = self.flag(2, shapes=False)
            elif choice < 0.3:
                made["buffer"] = "out"
            elif choice < 0.45 and (written := [one for one, tensor in inputs.items() if "mutated" in tensor]):
                source = self._draw.choice(written)
                made = {"dtype": inputs[source]["dtype"], "shape": inputs[source]["shape"], "alias": source}
            if "out" in inputs and not self._slips():
                made.pop("buffer", None)
            outputs[name] = made
            self._tensors.append(name)
        return outputs

    # ---- expressions

    def integer(self, depth: int) -> str:
        """An integer, mostly one that is >= 0."""
        draw = self._draw
        if self._slips():
            return self._one(
                "flag", "1.5", "Q", "B", "N ** 2", "N // 0", "-N", "mode", "'sum'", "dim.value", "9" * 30, "x"
            )
        if depth <= 0 or draw.random() < 0.4:
            return self._one(*self._names[INTEGERS], "1", "2", "3")
        inner = depth - 1
        if self._others and draw.random() < 0.2:
            return self._by_name(inner)
        choice = draw.randrange(9)
        if choice < 3:
            return f"{self.integer(inner)} {self._one('+', '*', '+')} {self._factor(inner)}"
        if choice == 3:
            return f"{self._factor(inner)} {self._one('//', '%')} {self._one('2', '4', 'max((k, 1))', '7')}".replace(
                "max((k, 1))", "3"
            )
        if choice == 4:
            return f"({self.integer(inner)} if {self.flag(inner)} else {self.integer(inner)})"
        if choice == 5 and self._names[SEQUENCES]:
            return f"{self._one('prod', 'sum', 'len')}({self.sequence(inner)})"
        if choice == 6:
            return self._one(
                f"ceil_div({self.integer(inner)}, 2)", f"max(({self.integer(inner)}, 1))", f"abs({self.integer(inner)})"
            )
        if choice == 7 and self._names[SEQUENCES]:
            return f"{self._one('sum', 'max')}(i + 1 for i in {self.sequence(inner)}{self._one('', ' if i > 1')})"
        return f"sum(min((i, {self.integer(0)})) for i in range({self.integer(0)}))"

    def _by_name(self, depth: int) -> str:
        """A call with an optional argument by name, or a union that a comparison takes apart."""
        if self._slips():
            return self._one(
                "per_axis(pad, 0, 2)",
                "per_axis(steps, 0, 2, value=1)",
                "per_axis(steps, 0, 2, 1, fallback=1)",
                "max(*B, default=1)",
                "len(B, default=1)",
                "mhc.expansion(9)",
            )
        if "pad" in self._others and self._draw.random() < 0.5:
            test, no = self._one(("pad == 'keep'", False), ("pad != 'keep'", True), ("pad not in ('keep',)", True))
            arms = (f"per_axis(pad, 0, 2, fallback={self.integer(0)})", "0")
            return f"({arms[not no]} if {test} else {arms[no]})"
        if "steps" in self._others and self._draw.random() < 0.5:
            return f"per_axis(steps, 0, 2, fallback={self.integer(depth)})"
        return self._one(
            f"max({self.sequence(0)}, default={self.integer(depth)})"
            if self._names[SEQUENCES]
            else "min((), default=3)",
            f"max((i + 1 for i in (N, 2) if i > 1), default={self.integer(0)})",
            "mhc.expansion(N * N + 2 * N)",
        )

    def _factor(self, depth: int) -> str:
        text = self.integer(depth)
        return text if text.isalnum() else f"({text})"

    def sequence(self, depth: int) -> str:
        """A sequence of integers."""
        if depth <= 0 or self._draw.random() < 0.5:
            return self._one(*self._names[SEQUENCES], "(1, 2)")
        return self._one(
            f"({self.integer(depth - 1)}, {self.integer(depth - 1)})",
            f"repeat({self.integer(0)}, {self.integer(0)})",
            f"{self._one(*self._names[SEQUENCES], '(4,)')}[:1]",
            f"broadcast({self.sequence(0)}, (1,))",
            "balanced_sizes(N, 3)",
        )

    def flag(self, depth: int, shapes: bool = True) -> str:
        """A condition; without `shapes`, one that is known before the shapes are."""
        if self._slips():
            return self._one("N", "x is None", "flag == 1", "present(q)", "mode == 'max'", "1", "T", "flag and N")
        choices = [*self._names[FLAGS]]
        choices += [f"present({name})" for name in (*self._optional, *self._maybes)]
        choices += ["mode == 'sum'", "mode in ('sum', 'mean')"] * ("mode" in self._names[WORDS])
        if "scale" in self._others and shapes:
            choices += ["category(scale) != 'bool'", "representable(scale, 'uint8')", "scale < 3"]
        if shapes:
            choices += [
                *(["present(out)"] if self._draw.random() < 0.1 else []),
                "N > 0",
                f"{self._one(*self._names[INTEGERS])} <= {self._one('64', 'N', '2 * N')}",
                "N % 2 == 0",
            ]
        if depth > 0 and self._draw.random() < 0.5:
            left, right = self.flag(depth - 1, shapes), self.flag(depth - 1, shapes)
            return self._one(
                f"not ({left})", f"({left} and {right})", f"({left} or {right})", f"({left} if {right} else {left})"
            )
        return self._one(*choices) if choices else "True"

    # ---- rows and price

    def _rows(self, forall: dict[str, str], params: dict[str, Any], inputs: dict[str, Any]) -> list[dict[str, Any]]:
        rows = []
        own = [name for name, tensor in inputs.items() if tensor.get("optional") is True]
        dtypes = {"T": self._one("float16", "float32", "int32")} if "T" in forall else {}
        for at in range(self._draw.choice([1, 1, 2, 3])):
            row: dict[str, Any] = {"label": f"row{at}"}
            some = self._draw.sample(own, self._draw.randint(1, len(own))) if own and self._draw.random() < 0.6 else []
            for name, kind in forall.items():
                if name == "P" and not any("P" in inputs[one]["shape"] for one in some) and not self._slips():
                    continue
                if kind == "Dim" and not self._slips():
                    row[name] = self._one(0, 1, 4, 8, 64)
                elif kind == "Shape":
                    row[name] = self._one([], [2], [2, 3], [1, 4])
            for name, param in params.items():
                if "default" not in param or self._draw.random() < 0.3:
                    row[name] = self._one(param.get("default", 3), *([7] if self._slips() else []))
            if some:
                row["some"] = some
            if dtypes and not self._slips():
                row["dtype_cases"] = [dtypes]
            rows.append(row)
        return rows

    def _roofline(self) -> dict[str, Any]:
        if self._draw.random() < 0.1:
            return {
                "func": self._one("tileops.perf.formulas.gqa_fwd_roofline", "acme._costs.price", "os.system", "nowhere")
            }
        made = {"flops": self.integer(4)}
        if self._draw.random() < 0.4:
            parts = [
                f"(bytes({name}) if present({name}) else 0)" if name in self._optional else f"bytes({name})"
                for name in self._tensors
            ]
            made["bytes"] = " + ".join(self._draw.sample(parts, self._draw.randint(1, len(parts))))
        return made


def grown(draw: random.Random) -> dict[str, Any]:
    """One entry; half of them are grown without a slip."""
    return Grower(draw, draw.choice([0.0, 0.0, 0.01, 0.05])).entry()
