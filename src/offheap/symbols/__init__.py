"""Address -> function, file, line, inlined chain."""

from offheap.symbols.symbolizer import Symbol, Symbolizer

__all__ = ["Symbol", "Symbolizer"]
