/** Where the lines come from: the log as it is written, or what there is of a container that does not run. */
import { useSignal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import type { Container, StreamState, TroupeError } from '../../../../client/index.ts';
import { asTroupeError, client, noteRefusal } from '../../../core/platform.ts';
import { session } from '../../../core/session.ts';
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

/**
 * Follows the log for as long as it is shown. A container that starts again goes on below what there was, and so does
 * the log when a session has ended and somebody has logged in again.
 */
export function useLog({ id, status }: Pick<Container, 'id' | 'status'>): ShownLog {
  const lines = useMemo(() => new LogLines(), [id]);
  const flow = useSignal<LogFlow>('connecting');
  const error = useSignal<TroupeError | undefined>(undefined);
  const isStill = status === 'stopped' || status === 'failed';
  const isActive = session.value.state === 'active';
  useEffect(() => () => lines.close(), [lines]);
  useEffect(() => {
    error.value = undefined;
    flow.value = 'connecting';
    if (!isActive) return;
    const since = lines.last;
    if (!isStill)
      return follow(
        { id, lines, since },
        {
          onFlow: (state) => {
            flow.value = state;
          },
          onError: (cause) => {
            noteRefusal(cause);
            if (cause.code !== 'unauthorized') error.value = cause;
          },
        },
      );
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
  }, [id, isStill, isActive]);
  return { lines, flow: flow.value, error: error.value };
}

interface LogShown {
  readonly id: string;
  readonly lines: LogLines;
  /** The stamp of the last line that is shown. */
  readonly since: string | undefined;
}

interface LogTold {
  readonly onFlow: (flow: LogFlow) => void;
  readonly onError: (error: TroupeError) => void;
}

function follow({ id, lines, since }: LogShown, { onFlow, onError }: LogTold): () => void {
  let lostAt: number | undefined;
  const onState = (state: StreamState) => {
    if (state.state === 'open') {
      if (lostAt !== undefined) lines.addGap(Date.now() - lostAt);
      lostAt = undefined;
      onFlow('live');
    } else if (state.state === 'closed') onFlow('ended');
    else {
      if (state.state === 'waiting' && lines.count > 0) lostAt ??= Date.now();
      onFlow('connecting');
    }
  };
  // All that came meanwhile, however much it is.
  const begin = since === undefined ? { tail: TAIL } : { since };
  let isLeft = false;
  const log = client.follow.logs({ id, ...begin, onLine: (line) => lines.add(line), onState });
  void log.done.then(({ error }) => {
    if (!isLeft && error !== undefined && error.code !== 'not_running') onError(error);
  });
  return () => {
    isLeft = true;
    log.close();
  };
}
