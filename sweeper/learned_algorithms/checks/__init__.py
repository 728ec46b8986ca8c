"""Whether tasks, models, objectives and optimisers keep their contracts.

`shapes` traces every method: nothing is computed, and no device is needed. `values` computes a few pairs with a fresh
network. `suite` adds what takes longer. All raise a `ContractError` for the first mistake that they find.
"""
