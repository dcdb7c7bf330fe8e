"""Count what ``torch.compile`` compiles."""

from typing import Any

import torch


def counted(function: Any, fullgraph: bool = True) -> tuple[Any, list[Any]]:
    """A function, or a module, whose graphs run as they were traced, and the list of them."""
    torch.compiler.reset()
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    return torch.compile(function, fullgraph=fullgraph, dynamic=True, backend=backend), graphs
