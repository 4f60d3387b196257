/** What the platform does in a cluster, played with given credentials: each says what it lacked the right to. */
import { type Engine, EngineError } from '../../../proto/ports/engine.ts';
import type { Log } from '../../../proto/ports/log.ts';
import { KubeClient } from '../../../transports/engines/kubernetes/client.ts';
import { kubernetesEngine } from '../../../transports/engines/kubernetes/engine.ts';
import { kubeletSummary } from '../../../transports/engines/kubernetes/kubelet-summary.ts';
import { kubernetesMetrics } from '../../../transports/engines/kubernetes/metrics.ts';
import { until } from '../until.ts';

/** The credentials to try, the administrator's, and a container id that was never used. */
export interface Stage {
  readonly kubeconfig: string;
  readonly admin: string;
  readonly id: string;
}

/** Resolves with the sentences about missing rights; none when all went well. Rejects when something else goes wrong. */
export type Scenario = (stage: Stage) => Promise<string[]>;

const lacking = /lacks a right in the cluster/;
const times = { silenceMs: 60_000, firstPauseMs: 50, longestPauseMs: 200 };

/** A log that keeps the sentences about missing rights, but for those of `kubeletScenario`. */
function listening(missed: string[], onMissed: () => void = () => {}): Log {
  const hear = (fields: object): void => {
    const text = JSON.stringify(fields);
    if (!lacking.test(text) || text.includes('nodes/proxy')) return;
    missed.push(text);
    onMissed();
  };
  const log: Log = { debug: hear, info: hear, warn: hear, error: hear, child: () => log };
  return log;
}

/** Does it; a missing right is noted. `mayFail`: what else goes wrong is the stage's own fault. */
async function tried(missed: string[], step: () => Promise<unknown>, mayFail = false): Promise<void> {
  try {
    await step();
  } catch (error) {
    const text = error instanceof Error ? `${error.message} ${String(error.cause ?? '')}` : String(error);
    if (lacking.test(text)) missed.push(text);
    else if (!(mayFail && error instanceof EngineError) && missed.length === 0) throw error;
  }
}

function engineFor(kubeconfig: string, log: Log): Engine {
  return kubernetesEngine({
    ...{
      access: { kubeconfig },
      installation: 'test',
      baseImage: 'x/y:1',
      log,
      watchTimes: times,
      usageEveryMs: 600_000,
    },
  });
}

const specOf = (id: string) => ({
  ...{ id, userId: 'u1', hostname: 'box', image: 'x/y:1', cpus: 0.5, memoryMb: 128, storageGb: 1 },
  ...{ mountPaths: ['/root'], authorizedKeys: ['ssh-ed25519 AAAA'] },
});

/** A container's whole life, seen by a watch. */
export const containersScenario: Scenario = async ({ kubeconfig, id }) => {
  const missed: string[] = [];
  const engine = engineFor(kubeconfig, listening(missed));
  let changes = 0;
  const watch = engine.watch((seen) => {
    if (seen === id) changes += 1;
  });
  const heard = () => until(() => missed.length > 0 || changes > 0, { what: 'the watch tells', timeoutMs: 60_000 });
  try {
    const spec = specOf(id);
    // Before anything changes: each of the three watches stands, or says what it lacks.
    await tried(missed, () => engine.create(spec));
    await tried(missed, () => engine.start(id, spec.authorizedKeys));
    if (missed.length === 0) await heard();
    const network = { owner: 'u1', name: `n-${id}`, alias: 'db', place: 1 };
    await tried(missed, () => engine.join(id, network));
    await tried(missed, () => engine.join(id, { ...network, alias: 'store' }));
    await tried(missed, () => engine.join(id, undefined));
    await tried(missed, () => engine.inspect(id));
    await tried(missed, () => engine.list());
    const signal = AbortSignal.timeout(30_000);
    await tried(missed, () => engine.exec(id, { cols: 80, rows: 24, term: 'xterm' }, signal), true);
    await tried(
      missed,
      async () => {
        for await (const _ of engine.logs(id, { tail: 1, follow: false, signal })) break;
      },
      true,
    );
    await tried(missed, () => engine.stop(id, 1));
    await tried(missed, () => engine.remove(id, { keepData: true }));
    await tried(missed, () => engine.create(spec));
    await tried(missed, () => engine.remove(id));
    await heard();
  } finally {
    await watch.close();
    await engine.close();
  }
  return missed;
};

/** What a gateway asks of a container that runs. */
export const connectionsScenario: Scenario = async ({ kubeconfig, admin, id }) => {
  const missed: string[] = [];
  const owner = engineFor(admin, listening([]));
  const engine = engineFor(kubeconfig, listening(missed));
  try {
    await owner.create(specOf(id));
    await owner.start(id, []);
    await tried(missed, async () => {
      if ((await engine.inspect(id))?.phase !== 'running') throw new Error('it does not run');
    });
    await owner.remove(id);
  } finally {
    await engine.close();
    await owner.close();
  }
  return missed;
};

async function servesNumbers(administrator: KubeClient): Promise<boolean> {
  const root = '/apis/metrics.k8s.io/v1beta1';
  const answers = await Promise.all(
    ['pods', 'nodes'].map((of) =>
      administrator.call('GET', `${root}/${of}`).then(
        () => true,
        () => false,
      ),
    ),
  );
  return answers.every(Boolean);
}

/** Refreshes of the monitor, until all numbers are there. Those that are missed are noted, too: the source goes on without. */
export const measurementsScenario: Scenario = async ({ kubeconfig, admin, id }) => {
  const missed: string[] = [];
  const administrator = new KubeClient({ kubeconfig: admin });
  const owner = engineFor(admin, listening([]));
  const giveUp = new AbortController();
  // What only a kubelet knows is another role's.
  const log = listening(missed, () => giveUp.abort());
  const source = kubernetesMetrics({
    ...{ access: { kubeconfig }, installation: 'test', watchTimes: times, absentMs: 0, log },
  });
  try {
    await owner.create(specOf(id));
    await owner.start(id, []);
    let inVain = 0;
    const isOver = async (): Promise<boolean> => {
      const sample = await source.read(AbortSignal.any([giveUp.signal, AbortSignal.timeout(60_000)]));
      const pod = sample.pods?.find(({ containerId }) => containerId === id);
      const [node] = sample.nodes ?? [];
      const used = [pod?.memoryBytes, pod?.cpuMillis, node?.memoryBytes];
      if (used.join() === [123 * 2 ** 20, 250, 123 * 2 ** 20].join()) return true;
      // A busy server says now and then that nobody serves numbers: they are missed when others get them.
      if (await servesNumbers(administrator)) inVain += 1;
      if (inVain === 5) missed.push(`numbers: ${used.join()}`);
      return missed.length > 0;
    };
    await tried(missed, () => until(isOver, { what: 'all numbers', timeoutMs: 60_000, everyMs: 100 }));
    await owner.remove(id);
  } finally {
    await source.close();
    administrator.close();
    await owner.close();
  }
  return missed;
};

/** What is asked of a kubelet. There is none: only whether it might be asked counts. */
export const kubeletScenario: Scenario = async ({ kubeconfig }) => {
  const missed: string[] = [];
  const client = new KubeClient({ kubeconfig });
  try {
    await tried(missed, () => kubeletSummary(client, 'node1', { timeoutMs: 2000 }), true);
  } finally {
    client.close();
  }
  return missed;
};
