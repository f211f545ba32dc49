// pg-boss: `insert`, and `fetch` with `complete` in batches of 500 by two callers. Its `work` would
// sleep at least half a second between two batches.
import PgBoss from "pg-boss";
import { inFlight, run } from "./measured.mjs";

const QUEUE = "noop";
const BATCH = 500;
const CALLERS = 2;

async function started(connectionString) {
  const boss = new PgBoss({ connectionString, max: 4, supervise: false, schedule: false });
  boss.on("error", (error) => {
    throw error;
  });
  await boss.start();
  return boss;
}

await run({
  async setup(url) {
    const boss = await started(url);
    await boss.createQueue(QUEUE);
    await boss.stop({ graceful: false });
  },

  async insert(url, batches, most) {
    const boss = await started(url);
    const jobs = (batch) => batch.map((data) => ({ name: QUEUE, data }));
    const done = await inFlight(batches, (batch) => boss.insert(jobs(batch)), most);
    await boss.stop({ graceful: false });
    return done;
  },

  async drain(url) {
    const boss = await started(url);
    let done = 0;
    const caller = async () => {
      for (;;) {
        const jobs = await boss.fetch(QUEUE, { batchSize: BATCH });
        if (jobs.length === 0) return;
        await boss.complete(QUEUE, jobs.map((job) => job.id));
        done += jobs.length;
      }
    };
    await Promise.all(Array.from({ length: CALLERS }, caller));
    await boss.stop({ graceful: false });
    return done;
  },
});
