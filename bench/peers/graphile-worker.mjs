// graphile-worker (Node): `addJobs`, and its worker pool with its own batching switched on.
import pg from "pg";
import { Logger, makeWorkerUtils, run as work } from "graphile-worker";
import { inFlight, run } from "./measured.mjs";

const logger = new Logger(() => () => {});

// The library asks for these handlers, or warns.
function pool(connectionString) {
  const pool = new pg.Pool({ connectionString, max: 10 });
  const fail = (error) => {
    throw error;
  };
  pool.on("error", fail);
  pool.on("connect", (client) => client.on("error", fail));
  return pool;
}

await run({
  async setup(connectionString) {
    const utils = await makeWorkerUtils({ connectionString, logger });
    await utils.migrate();
    await utils.release();
  },

  async insert(connectionString, batches, most) {
    const pgPool = pool(connectionString);
    const utils = await makeWorkerUtils({ pgPool, logger });
    const jobs = (batch) => batch.map((payload) => ({ identifier: "noop", payload }));
    const done = await inFlight(batches, (batch) => utils.addJobs(jobs(batch)), most);
    await utils.release();
    await pgPool.end();
    return done;
  },

  async drain(connectionString, count) {
    const pgPool = pool(connectionString);
    let done = 0;
    let all_done;
    const finished = new Promise((resolve) => (all_done = resolve));
    const noop = async () => {
      done += 1;
      if (done === count) all_done();
    };
    const preset = {
      worker: { concurrentJobs: 24, localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 },
    };
    const runner = await work({ pgPool, preset, logger, noHandleSignals: true, taskList: { noop } });
    await finished;
    // Waits for the completions that are still gathered.
    await runner.stop();
    await pgPool.end();
    return done;
  },
});
