"""Running chains: one loop for all kernels, targets and executors.

There are four levels; a module imports only from its own level or from lower ones.

| level | module | contents |
| --- | --- | --- |
| 4 | `run` | `sample`: validates, makes jobs, drives them, returns `Samples` |
| 3 | `drive` | the loop over jobs, with recorder, executor, stop rules and progress |
|   | `warm_start` | what finds the starts of chains before a run, by jobs of its own |
|   | `trajectory_jobs` | jobs of full-batch kernels: one chain, or several vmapped chains |
|   | `training_jobs` | jobs of an optimizer with early stopping |
|   | `minibatch_jobs` | jobs of minibatch kernels, and the detection of divergent chains |
| 2 | `jobs` | the contract of a job |
|   | `chains`, `batches` | compiled programs of a chain, and of vmapped chains |
|   | `epochs`, `stability` | compiled programs of a minibatch chain, and the search for its step size |
|   | `training` | compiled programs of an optimizer with early stopping |
|   | `feeds` | rows of minibatches in order, from the device or the host |
| 1 | `devices` | assignment of chains to devices, worker threads, compiler options |
|   | `progress` | progress reports |
|   | `validation` | validation of the arguments of a run |
|   | `compiled` | the cache of compiled programs on disk, and their number in a process |
|   | `waiting` | work that nothing interrupts, and a deadline |

Draws go to `ergonet.draws`: the `recorder` puts those that the `retention` chooses into a `store`; a `callback` is
called with all of them.
"""
