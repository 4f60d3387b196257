/** Where the lines come from: the log as it is written, or what there is of a container that does not run. */
import { useSignal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import type { Container, StreamState, TroupeError } from '../../../../client/index.ts';
import { asTroupeError, client } from '../../../core/platform.ts';
import { LogLines } from './lines.ts';

/** Lines to begin with. */
const TAIL = 500;

/** How the log is followed. */
export type LogFlow = 'live' | 'connecting' | 'ended';

/** A log that is shown. */
interface ShownLog {
  readonly lines: LogLines;
  readonly flow: LogFlow;
  readonly error: TroupeError | undefined;
}

/** Follows the log for as long as it is shown. A container that starts again goes on below what there was. */
export function useLog({ id, status }: Pick<Container, 'id' | 'status'>): ShownLog {
  const lines = useMemo(() => new LogLines(), [id]);
  const flow = useSignal<LogFlow>('connecting');
  const error = useSignal<TroupeError | undefined>(undefined);
  const isStill = status === 'stopped' || status === 'failed';
  useEffect(() => () => lines.close(), [lines]);
  useEffect(() => {
    error.value = undefined;
    flow.value = 'connecting';
    const since = lines.last;
    if (!isStill)
      return follow(id, lines, since, (state) => {
        flow.value = state;
      });
    const ended = new AbortController();
    const options = since === undefined ? { id, tail: TAIL } : { id, since };
    client.readLog(options, { signal: ended.signal }).then(
      (read) => {
        for (const line of read) lines.add(line);
        flow.value = 'ended';
      },
      (cause) => {
        if (!ended.signal.aborted) error.value = asTroupeError(cause);
      },
    );
    return () => ended.abort();
  }, [id, isStill]);
  return { lines, flow: flow.value, error: error.value };
}

function follow(id: string, lines: LogLines, since: string | undefined, tell: (flow: LogFlow) => void): () => void {
  let lostAt: number | undefined;
  const onState = (state: StreamState) => {
    if (state.state === 'open') {
      if (lostAt !== undefined) lines.addGap(Date.now() - lostAt);
      lostAt = undefined;
      tell('live');
    } else if (state.state === 'closed') tell('ended');
    else {
      if (state.state === 'waiting' && lines.count > 0) lostAt ??= Date.now();
      tell('connecting');
    }
  };
  const log = client.follow.logs({ id, tail: TAIL, since, onLine: (line) => lines.add(line), onState });
  return () => log.close();
}
