"""Whether tasks, models, objectives and optimisers keep their contracts.

`shapes` traces every method: nothing is computed, and no device is needed. `values` computes a few pairs with a fresh
network, and traces the programs of all methods. Both raise a `ContractError` for the first mistake that they find.
`examples` makes the trials on which a plug-in alone is checked.
"""
