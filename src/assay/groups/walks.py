"""Walks through a tree in which a node may be reached by several ways: each node is met once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Node = TypeVar("Node")
ChildrenOf = Callable[[Node], Iterable[Node]]


def depth_first(first: Iterable[Node], children: ChildrenOf[Node]) -> Iterator[Node]:
    """These nodes and all below, parents before their children, in the order in which they are listed."""
    seen: set[int] = set()
    stack = [*first][::-1]
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            stack += [*children(node)][::-1]


def bottom_up(first: Iterable[Node], children: ChildrenOf[Node]) -> list[Node]:
    """These nodes and all below, children before their parents."""
    met: dict[int, Node] = {}

    def visit(nodes: Iterable[Node]) -> None:
        for node in nodes:
            if id(node) not in met:
                visit(children(node))
                met[id(node)] = node

    visit(first)
    return list(met.values())


def steps_to(first: Iterable[Node], children: ChildrenOf[Node]) -> dict[int, int]:
    """By the id of each node, how many steps down it is by the shortest way: 1 for the first ones."""
    steps: dict[int, int] = {}
    level, step = [*first], 1
    while level:
        new = {id(node): node for node in level if id(node) not in steps}
        steps.update(dict.fromkeys(new, step))
        level, step = [child for node in new.values() for child in children(node)], step + 1
    return steps


def path_between(top: Node, target: Node, children: ChildrenOf[Node]) -> list[Node]:
    """The nodes from `top` down to `target`, both included; empty if it is not below."""
    above: dict[int, Node] = {}
    for node in depth_first([top], children):
        if node is target:
            path = [node]
            while path[-1] is not top:
                path.append(above[id(path[-1])])
            return path[::-1]
        for child in children(node):
            above.setdefault(id(child), node)
    return []
