"""Learned algorithms, the paper's kind of trial: networks that are trained on the losses of inputs and seeds r.

All that only this kind knows is here. `trial_spec` is what a trial is, `kind` what the platform asks of it. The
contracts of its plug-ins are `contracts` (tasks, models and networks), `objective_contract` and `strategy_contract`;
`checks` holds plug-ins against them. `trainers` names the trainers, `evaluation` and `voting` measure what was trained,
and `metrics` has the names of what is measured.
"""
