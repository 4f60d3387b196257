/** Requests that write to an origin with a barrier: they wait there while it is closed. */
import type { ProxyDecision, ProxyRequest } from '../../proto/gateway/traffic.ts';
import type { LeaveBarrier, WriteBarrier } from '../../proto/gateway/write-barrier.ts';

/** They change nothing, and pass by every barrier. */
const READS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS']);

/** The answer to a client that waited for too long. The form is that of registries (OCI distribution, error codes). */
const CLOSED: ProxyDecision = {
  reply: {
    status: 503,
    headers: [['Retry-After', '15']],
    contentType: 'application/json',
    body: `${JSON.stringify({
      errors: [
        {
          code: 'UNAVAILABLE',
          message: 'The registry gives back the space of removed images. Push again in a moment.',
        },
      ],
    })}\n`,
  },
};

/** Has a request that is to be forwarded enter by the barrier, if it writes to what is behind it. */
export function pastBarrier(
  barrier: WriteBarrier,
  { method }: Pick<ProxyRequest, 'method'>,
  decision: ProxyDecision,
): ProxyDecision | Promise<ProxyDecision> {
  if (!('forward' in decision) || READS.has(method)) return decision;
  const { host, port } = decision.forward;
  if (host !== barrier.address.host || port !== barrier.address.port) return decision;
  const letIn = (leave: LeaveBarrier | undefined): ProxyDecision =>
    leave === undefined ? CLOSED : { ...decision, onOver: leave };
  const entered = barrier.enter();
  return entered instanceof Promise ? entered.then(letIn) : letIn(entered);
}
