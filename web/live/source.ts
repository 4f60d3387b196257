/** Where a tab gets its messages from: the worker that all tabs share, or a hub of its own where there is none. */
import { client } from '../core/platform.ts';
import { LiveHub } from './hub.ts';
import type { HubRequest, LiveMessage } from './messages.ts';
import workerAddress from './worker.ts?sharedworker&url';

/** A source of messages, for one login. */
interface LiveSource {
  /** Tries again at once. */
  wake(): void;
  close(): void;
}

/** Follows the platform for a user until it is closed. */
export function openSource(userId: string, take: (message: LiveMessage) => void): LiveSource {
  return sharedSource(userId, take) ?? ownSource(take);
}

function ownSource(take: (message: LiveMessage) => void): LiveSource {
  const hub = new LiveHub(client, take);
  return { wake: () => client.wake(), close: () => hub.close() };
}

function sharedSource(userId: string, take: (message: LiveMessage) => void): LiveSource | undefined {
  if (!('SharedWorker' in globalThis)) return undefined;
  let port: MessagePort;
  try {
    ({ port } = new SharedWorker(trusted(workerAddress), { type: 'module', name: 'troupe-live' }));
  } catch {
    // Forbidden, as in some private windows.
    return undefined;
  }
  const send = (request: HubRequest) => port.postMessage(request);
  const follow = () => send({ kind: 'follow', userId });
  // A page that is kept for the way back hears nothing meanwhile, and is told how everything is when it returns.
  const leave = () => send({ kind: 'leave' });
  port.onmessage = ({ data }: MessageEvent<LiveMessage>) => take(data);
  addEventListener('pageshow', follow);
  addEventListener('pagehide', leave);
  follow();
  return {
    wake: () => send({ kind: 'wake' }),
    close() {
      removeEventListener('pageshow', follow);
      removeEventListener('pagehide', leave);
      leave();
      port.close();
    },
  };
}

/** What the browser's policy of script addresses has: typed as text, since the constructor of workers takes text. */
interface ScriptPolicies {
  createPolicy(name: string, rules: ScriptPolicy): ScriptPolicy;
}

interface ScriptPolicy {
  createScriptURL(address: string): string;
}

declare global {
  var trustedTypes: ScriptPolicies | undefined;
}

/** The one policy that the gateway admits. It makes addresses of scripts of this origin, and nothing else. */
const POLICY = globalThis.trustedTypes?.createPolicy('troupe', {
  createScriptURL(address) {
    if (new URL(address).origin !== location.origin) throw new TypeError('A script of another origin is not started.');
    return address;
  },
});

function trusted(address: string): string {
  const { href } = new URL(address, location.href);
  return POLICY?.createScriptURL(href) ?? href;
}
