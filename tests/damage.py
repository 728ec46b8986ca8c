"""Damage to the bytes of a file."""


def flipped(data: bytes, place: int, bit: int = 0) -> bytes:
    """The data with one bit of one byte flipped."""
    damaged = bytearray(data)
    damaged[place] ^= 1 << bit
    return bytes(damaged)


DAMAGES = {
    "emptied": lambda data: b"",
    "truncated": lambda data: data[: len(data) // 2],
    "cut by a byte": lambda data: data[:-1],
    "longer": lambda data: data + b"\0",
    "foreign": lambda data: b"PAR1" + b"x" * 100 + b"PAR1",
}
"""Of a file of Parquet, by a name for it."""
