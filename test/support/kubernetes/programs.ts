/** The programs of a cluster, and one of them as a child that can be killed and started again. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { guard } from '../guard.ts';
import { findProgram, skipUnless } from '../require.ts';

const built = ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kubelet'];
const folder =
  process.env.KUBERNETES_BINARIES ??
  join(
    process.env.TROUPE_TEST_CACHE ?? join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'troupe'),
    'kubernetes-1.20.2',
  );

/** Where a program of the cluster is: built by scripts/kubernetes-build.sh, or installed. */
export function programOf(name: string): string {
  return built.includes(name) ? join(folder, name) : (findProgram(name) ?? name);
}

/** For the `skip` option of tests that need a cluster: false when one can be started. */
export function skipWithoutKubernetes(): string | false {
  const missing = [
    ...built.filter((name) => !existsSync(programOf(name))),
    ...['etcd', 'dockerd', 'runc', 'ip'].filter((name) => findProgram(name) === undefined),
  ];
  const isRoot = process.getuid?.() === 0;
  const reason = isRoot
    ? `not installed: ${missing.join(', ')} (scripts/kubernetes-build.sh; apt-get install etcd-server docker.io iproute2)`
    : 'a cluster takes root';
  return skipUnless(isRoot && missing.length === 0, reason);
}

/** A program of the cluster that goes on until it is ended. */
export interface Part {
  readonly name: string;
  start(): void;
  /** SIGKILL; resolves once it is gone. */
  kill(): Promise<void>;
  /** SIGTERM, then SIGKILL after ten seconds. */
  stop(): Promise<void>;
  /** The end of what it wrote. */
  log(): string;
  readonly running: boolean;
}

/** A part that is not started yet; it goes with this process, however that ends. Its output goes to `logFile`. */
export function part(program: string, args: readonly string[], logFile: string): Part {
  let child: ChildProcess | undefined;
  let unguard: (() => void) | undefined;
  const alive = (): boolean => child !== undefined && child.exitCode === null && child.signalCode === null;
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    const ending = child;
    if (ending === undefined || !alive()) return;
    const gone = once(ending, 'exit');
    ending.kill(signal);
    const timer = setTimeout(() => ending.kill('SIGKILL'), 10_000);
    await gone;
    clearTimeout(timer);
    unguard?.();
  };
  return {
    name: program,
    start: () => {
      const log = openSync(logFile, 'a');
      child = spawn(programOf(program), args, { stdio: ['ignore', log, log], cwd: '/' });
      closeSync(log);
      unguard = guard(['kill -KILL "$1" 2>/dev/null'], String(child.pid));
      child.once('exit', unguard);
    },
    kill: () => end('SIGKILL'),
    stop: () => end('SIGTERM'),
    log: () => (existsSync(logFile) ? readFileSync(logFile, 'utf8').slice(-1500) : ''),
    get running() {
      return alive();
    },
  };
}
