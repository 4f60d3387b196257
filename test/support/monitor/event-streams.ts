/** Readers of server-sent events, and work for containers. */
import { z } from 'zod';
import { docker, inDocker } from '../engine/docker-client.ts';
import type { Cleanup } from '../temp.ts';

/** One event of a stream; `comment` lines are kept apart. */
export interface SseEvent {
  readonly id: string;
  readonly data: unknown;
}

export interface SseStream {
  readonly status: number;
  readonly headers: Headers;
  readonly events: SseEvent[];
  readonly comments: string[];
  /** Whether the server ended it. */
  isOver(): boolean;
  close(): void;
}

/** Opens a stream and reads it until `t` ends. */
export async function sse(
  t: Cleanup,
  url: string,
  options: { token?: string; lastEventId?: string } = {},
): Promise<SseStream> {
  const abort = new AbortController();
  t.after(() => abort.abort());
  const response = await fetch(url, {
    headers: {
      ...(options.token === undefined ? {} : { authorization: `Bearer ${options.token}` }),
      ...(options.lastEventId === undefined ? {} : { 'last-event-id': options.lastEventId }),
    },
    signal: abort.signal,
  });
  const events: SseEvent[] = [];
  const comments: string[] = [];
  let isOver = false;
  const read = async () => {
    let rest = '';
    for await (const chunk of response.body ?? []) {
      rest += Buffer.from(chunk).toString('utf8');
      const blocks = rest.split('\n\n');
      rest = blocks.pop() ?? '';
      for (const block of blocks) {
        const lines = block.split('\n');
        comments.push(...lines.filter((line) => line.startsWith(':')));
        const field = (name: string) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
        const data = field('data');
        if (data !== undefined) events.push({ id: field('id') ?? '', data: JSON.parse(data) });
      }
    }
  };
  read()
    .catch(() => undefined)
    .finally(() => {
      isOver = true;
    });
  return {
    status: response.status,
    headers: response.headers,
    events,
    comments,
    isOver: () => isOver,
    close: () => abort.abort(),
  };
}

/** Starts a command in a container of the platform and leaves it running. */
export async function runIn(containerId: string, script: string): Promise<void> {
  const client = docker();
  const [found] = await inDocker(containerId);
  const { Id } = await client.json('POST', `/containers/${found?.id}/exec`, z.object({ Id: z.string() }), {
    body: { Cmd: ['sh', '-c', script] },
  });
  await client.call('POST', `/exec/${Id}/start`, { body: { Detach: true } });
  client.close();
}
