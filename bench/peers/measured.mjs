// What both Node peers share: the command line, the payments, and a sample on stdout.
import { createReadStream, readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const BATCH = 1000;
const IN_FLIGHT = 4;

// `prepare|measure insert|drain URL FILE COUNT`; `peer` has `setup`, `insert` and `drain`.
export async function run(peer) {
  const [phase, work, url, file, count] = process.argv.slice(2);
  if (phase === "prepare") {
    await peer.setup(url);
    if (work === "drain") await peer.insert(url, batches(file));
    return;
  }
  const began = process.hrtime.bigint();
  const cpu = process.cpuUsage();
  const done = work === "insert" ? await peer.insert(url, batches(file), Number(count)) : await peer.drain(url, Number(count));
  if (done !== Number(count)) throw new Error(`${done} of ${count} were done`);
  const wall_secs = Number(process.hrtime.bigint() - began) / 1e9;
  const { user, system } = process.cpuUsage(cpu);
  const cpu_secs = (user + system) / 1e6;
  process.stdout.write(JSON.stringify({ count: done, wall_secs, cpu_secs, peak_mib: peakMib() }));
}

// Hands out batches, so many at once, and counts what came back; the file may hold more.
export async function inFlight(batches, insert, most = Infinity) {
  let done = 0;
  const under_way = new Set();
  for await (const full of batches) {
    const batch = full.slice(0, most - done - [...under_way].reduce((sum, one) => sum + one.size, 0));
    if (batch.length === 0) break;
    if (under_way.size === IN_FLIGHT) await Promise.race([...under_way].map((one) => one.promise));
    const one = { size: batch.length };
    one.promise = insert(batch).then(() => {
      under_way.delete(one);
      done += batch.length;
    });
    under_way.add(one);
  }
  await Promise.all([...under_way].map((one) => one.promise));
  return done;
}

async function* batches(file) {
  let batch = [];
  for await (const line of createInterface({ input: createReadStream(file) })) {
    batch.push(JSON.parse(line));
    if (batch.length === BATCH) {
      yield batch;
      batch = [];
    }
  }
  if (batch.length > 0) yield batch;
}

function peakMib() {
  const peak = /VmHWM:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"));
  return Number(peak[1]) / 1024;
}
