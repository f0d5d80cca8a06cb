"""Where work runs: executors of the shape of `concurrent.futures`, for chains and for any other independent jobs.

| module | contents |
| --- | --- |
| `base` | the contract of an executor: `concurrent.futures.Executor`, and a number of workers |
| `shared` | values that many jobs have in common and that each process gets once; how a call becomes bytes |
| `in_process` | calls run at once, in the caller's thread |
| `crew` | calls run by processes at the other ends of connections |
| `serving` | the other end: a process that runs calls until it is told to end |
| `processes` | a crew of processes of this machine, started anew and never forked |
| `dask` | workers of a Dask cluster |
| `threads` | worker threads of this process, and compiler options for them |
| `distributed` | a crew of the processes that a cluster manager has started, which `jax.distributed` brings together |

A call has to be a pure function of its arguments, so that it can be made again when its worker has died. The chunks of
a run are: keys are by absolute transition.
"""
