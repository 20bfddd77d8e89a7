"""What an ablation can vary. conf/<group>/<name>.yaml ↔ components/<group>/<name>.py, and no third file.

The rule for contracts: a contract stands on the lowest floor that uses it, once. What data are read by is in
`data/` (contracts, corpus, sampler, store), what a training is put together from in `training/contracts.py`, and what
only components or commands use in the `__init__` of its group. Each `components/<group>/__init__.py` names the contract
of its group in its docstring and imports it, wherever it is defined.

A contract is a Protocol that says what the object of a yaml must have: names of arguments, shapes, units, and what must
hold. Where Lightning needs one of its own classes, it is a subclass of that. tests/components/test_contracts.py holds
every option to the contract of its group; the tests of the group hold it to what its docstring promises.
"""
