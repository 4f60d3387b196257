/**
 * The streams of all tabs of a browser, in a worker that they share: one socket of each kind, however many tabs there
 * are. What is true now is told to a tab when it comes.
 */
import { client } from '../core/platform.ts';
import { LiveHub } from './hub.ts';
import type { HubRequest, LiveMessage } from './messages.ts';

const ports = new Set<MessagePort>();
/** The last message of each kind that says how everything is. */
const latest = new Map<LiveMessage['kind'], LiveMessage>();
let hub: LiveHub | undefined;
let followed = '';

addEventListener('connect', (event) => {
  const port = event instanceof MessageEvent ? event.ports[0] : undefined;
  if (port === undefined) return;
  port.onmessage = ({ data }: MessageEvent<HubRequest>) => answer(port, data);
});

function answer(port: MessagePort, request: HubRequest): void {
  switch (request.kind) {
    case 'follow':
      ports.add(port);
      if (hub === undefined || followed !== request.userId) begin(request.userId);
      else for (const message of latest.values()) port.postMessage(message);
      return;
    case 'wake':
      client.wake();
      return;
    case 'leave':
      ports.delete(port);
      if (ports.size === 0) end();
  }
}

function begin(userId: string): void {
  end();
  followed = userId;
  hub = new LiveHub(client, (message) => {
    if (message.kind === 'containers' || message.kind === 'link' || message.kind === 'usage')
      latest.set(message.kind, message);
    for (const port of ports) port.postMessage(message);
    // The next one to follow has logged in again.
    if (message.kind === 'refused') end();
  });
}

function end(): void {
  hub?.close();
  hub = undefined;
  latest.clear();
}
