"""A process compiles a program once, and keeps only its latest programs."""

import jax.numpy as jnp

from sweeper.training import compilation
from tests.trials import coloring_trial


def test_the_programs_used_latest_are_kept(monkeypatch):
    monkeypatch.setattr(compilation, "_programs", {})
    monkeypatch.setattr(compilation, "PROGRAMS", 4)
    compile_program, sizes = compilation.compiled, []

    def counted(function, trial, values, **options):
        sizes.append(len(values))
        return compile_program(function, trial, values, **options)

    def doubled(trial, values):
        return 2 * values

    monkeypatch.setattr(compilation, "compiled", counted)
    for size in (1, 2, 3, 4, 1, 5, 1, 5, 2):
        program = compilation.kept(doubled, coloring_trial(), jnp.ones(size))
        assert program(coloring_trial(), jnp.ones(size)).tolist() == [2.0] * size
    assert sizes == [1, 2, 3, 4, 5, 2]
