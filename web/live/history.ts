/** What was measured before this page was opened. */
import { useEffect } from 'preact/hooks';
import type { Container } from '../../client/index.ts';
import { client } from '../core/platform.ts';
import { personNow } from '../core/session.ts';
import { addHistory, usage } from './live.ts';

const MIB = 1024 ** 2;
const GIB = 1024 ** 3;
const SHOWN_MS = 900_000;

/** Asks once, when a container is shown. */
export function useHistory({ id, memory_mb, storage_gb }: Container): void {
  const userId = personNow()?.userId;
  useEffect(() => {
    if (userId === undefined) return;
    const ended = new AbortController();
    const since = String(Math.floor((Date.now() - SHOWN_MS) / 1000));
    const query = { namespace: `compute-${userId}-${id}`, since, step: '5' } as const;
    client.call('metricsHistory', { query }, { signal: ended.signal }).then(
      ({ timestamps, cpu_usage, memory_usage, disk_usage }) => {
        const known = usage.value.get(id)?.at(-1);
        addHistory(
          id,
          timestamps.map((at, n) => ({
            at: at * 1000,
            cpu: cpu_usage[n] ?? 0,
            cpuMost: known?.cpuMost ?? 1000,
            memory: memory_usage[n] ?? 0,
            memoryMost: known?.memoryMost ?? memory_mb * MIB,
            disk: disk_usage[n] ?? 0,
            diskMost: known?.diskMost ?? storage_gb * GIB,
          })),
        );
      },
      () => {
        // The plots begin with what is measured from now on.
      },
    );
    return () => ended.abort();
  }, [id, userId]);
}
