/** A container engine that has containers without running any: it answers what the monitor asks, and counts every call it gets. */
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';

/** How often a stream of statistics has a line, ms: as Docker does it. */
const LINE_MS = 1000;

/** A container that it has. */
export interface FakeContainer {
  readonly id: string;
  readonly userId: string;
}

export interface CountingEngine {
  /** Calls so far, without `GET /system/df`, which comes once a minute whoever looks on. */
  calls(): number;
  close(): Promise<void>;
}

/** Listens on the Unix socket `path`. */
export async function countingEngine(
  path: string,
  installation: string,
  containers: readonly FakeContainer[],
): Promise<CountingEngine> {
  let calls = 0;
  let usedNs = 1e9;
  const streams = new Set<ServerResponse>();
  const list = JSON.stringify(
    containers.map(({ id, userId }) => ({
      Id: id,
      Names: [`/troupe-${installation}-${id}`],
      State: 'running',
      Labels: { 'troupe.installation': installation, 'troupe.container': id, 'troupe.user': userId },
    })),
  );
  const state = { Status: 'running', Running: true, ExitCode: 0, StartedAt: new Date().toISOString() };
  const view = JSON.stringify({
    Id: 'x',
    State: state,
    Config: {},
    HostConfig: { NanoCpus: 5e8 },
    NetworkSettings: {},
  });
  const server = createServer((request, response) => {
    const url = (request.url ?? '').replace(/\?.*/, '').replace(/^\/v[0-9.]+/, '');
    if (url !== '/system/df') calls += 1;
    response.setHeader('content-type', 'application/json');
    response.setHeader('api-version', '1.41');
    if (url === '/_ping') response.end('OK');
    else if (url === '/containers/json') response.end(list);
    else if (url === '/system/df') response.end('{"Containers":[],"Volumes":[]}');
    else if (/^\/containers\/\w+\/json$/.test(url)) response.end(view);
    else if (/^\/containers\/\w+\/stats$/.test(url)) {
      streams.add(response);
      response.on('close', () => streams.delete(response));
      response.write(line(usedNs));
    } else if (url === '/events') {
      // Nothing ever happens.
      response.flushHeaders();
    } else response.writeHead(404).end('{"message":"not here"}');
  });
  const timer = setInterval(() => {
    usedNs += 2.5e8;
    const text = line(usedNs);
    for (const stream of streams) stream.write(text);
  }, LINE_MS);
  server.listen(path);
  await once(server, 'listening');
  return {
    calls: () => calls,
    close: async () => {
      clearInterval(timer);
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

/** A line of statistics, about as long as a real one. */
function line(usedNs: number): string {
  return `${JSON.stringify({
    read: new Date().toISOString(),
    preread: new Date(Date.now() - LINE_MS).toISOString(),
    pids_stats: { current: 5, limit: 512 },
    cpu_stats: { cpu_usage: { total_usage: usedNs, percpu_usage: [usedNs, 0] }, online_cpus: 2 },
    precpu_stats: { cpu_usage: { total_usage: usedNs - 2.5e8, percpu_usage: [usedNs - 2.5e8, 0] }, online_cpus: 2 },
    memory_stats: {
      ...{ usage: 50_000_000, limit: 536_870_912 },
      stats: Object.fromEntries(Array.from({ length: 40 }, (_, index) => [`kind_${index}`, index * 4096])),
    },
  })}\n`;
}
