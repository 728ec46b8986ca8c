"""How many bytes a parquet file takes when it is decoded, by its footer: a small file may expand to any size."""

import pyarrow.parquet as pq

ROWS_LIMIT = 64 * 2**20
"""Bytes that the decoded rows of a file may take; a hundred rows take less than one million."""

DETAIL_LIMIT = 2**30
"""Bytes that the decoded curves or outcomes of a file may take; outcomes of a colouring trial take ten million."""

_VALUE = 8


def decoded_bytes(metadata: pq.FileMetaData) -> int:
    """Bytes that the columns of a parquet file take when they are decoded."""
    pages = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    # A column of equal values takes next to nothing in its pages.
    return pages + metadata.num_rows * metadata.num_columns * _VALUE
