"""Keys of the launchers of -m, with their defaults and meanings."""

_ANYWHERE = (
    ("jobs", "null", "number of arms at a time; null: one per GPU, or one per core if there are no GPUs"),
    ("fail_fast", "false", "true: stop all arms when one fails"),
    ("show", "null", "dotted name of a function that prints the run folders' results; null: one line per arm"),
)
_HERE = (
    *_ANYWHERE,
    ("per_gpu", "1", "number of arms that share a GPU; auto: as many as the GPU's memory holds"),
    ("timeout", "null", "minutes after which an arm is killed; null: no limit"),
)
_CPUS = ("cpus", "1", "CPUs for each rank of an arm, which runs one thread per CPU")
LAUNCHERS = {
    "processes": _HERE,
    "ray": (
        *_HERE,
        _CPUS,
        ("address", "null", "auto, or host:port of a cluster; null: RAY_ADDRESS, or else a local Ray"),
        ("retries", "3", "number of restarts of an arm whose worker or machine is lost"),
    ),
    "slurm": (
        *_ANYWHERE,  # Slurm itself decides what shares a GPU and when a job ends
        _CPUS,
        ("partition", "null", "sbatch's --partition"),
        ("account", "null", "sbatch's --account"),
        ("qos", "null", "sbatch's --qos"),
        ("constraint", "null", "sbatch's --constraint"),
        ("memory", "null", "sbatch's --mem, such as 32G"),
        ("minutes", "null", "time limit of a job; null: the partition's; plan: estimated from a few measured steps"),
        ("sbatch", "[]", "further sbatch options, such as [--exclude=node7]"),
        ("detach", "false", "true: queue the arms and exit; the same command again attaches to them"),
    ),
}
"""For each launcher, its keys below hydra.launcher, with their defaults in YAML and their meanings."""
