/** Requests that write to an origin with a barrier: they wait there while it is closed, and need room. */
import type { ProxyDecision, ProxyForward, ProxyReply, ProxyRequest } from '../../proto/gateway/traffic.ts';
import type { LeaveBarrier, WriteAdmission, WriteBarrier } from '../../proto/gateway/write-barrier.ts';

/** They change nothing, and pass by every barrier. */
const READS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS']);

/** The form is that of registries (OCI distribution specification, error codes). */
function refusal(status: number, code: string, message: string): ProxyReply {
  return {
    status,
    headers: status === 503 ? [['Retry-After', '15']] : [],
    contentType: 'application/json',
    body: `${JSON.stringify({ errors: [{ code, message }] })}\n`,
  };
}

/** The answer to a client that waited for too long. */
const CLOSED = refusal(
  503,
  'UNAVAILABLE',
  'The registry gives back the space of removed images. Push again in a moment.',
);

/** The answer when nobody knows how much room there is. */
const UNKNOWN = refusal(
  503,
  'UNAVAILABLE',
  'The registry cannot tell whether there is room, or who pushes. Push again in a moment; the log says why.',
);

/** Has a request that is to be forwarded enter by the barrier, if it writes to what is behind it. */
export function pastBarrier(
  barrier: WriteBarrier,
  request: Pick<ProxyRequest, 'method' | 'field'>,
  decision: ProxyDecision,
): ProxyDecision | Promise<ProxyDecision> {
  if (!('forward' in decision) || READS.has(request.method)) return decision;
  const { host, port } = decision.forward;
  if (host !== barrier.address.host || port !== barrier.address.port) return decision;
  if (barrier.admit === undefined) return enterBy(barrier, decision, {});
  const asked = { method: request.method, field: (name: string) => request.field(name), target: decision.target };
  return barrier.admit(asked).then(
    (admitted) => {
      if (typeof admitted === 'string') return { reply: refusal(403, 'DENIED', admitted) };
      if ('later' in admitted) return { reply: refusal(503, 'UNAVAILABLE', admitted.later) };
      return enterBy(barrier, decision, admitted);
    },
    () => ({ reply: UNKNOWN }),
  );
}

function enterBy(
  barrier: WriteBarrier,
  decision: ProxyForward,
  { onBody, onOver, onBegin, owner, repository }: WriteAdmission,
): ProxyDecision | Promise<ProxyDecision> {
  let endNow: ((reply: ProxyReply) => void) | undefined;
  const begun: ProxyForward['onBegin'] = (end) => {
    endNow = end;
    onBegin?.((why) => end(refusal(403, 'DENIED', why)));
  };
  const letIn = (leave: LeaveBarrier | undefined): ProxyDecision => {
    if (leave === undefined) {
      onOver?.();
      return { reply: CLOSED };
    }
    const over = () => {
      leave();
      onOver?.();
    };
    const going = { ...decision, onOver: over, onBegin: begun };
    if (onBody === undefined) return going;
    const refused = (bytes: number) => {
      const why = onBody(bytes);
      return why === undefined ? undefined : refusal(403, 'DENIED', why);
    };
    return { ...going, onBody: refused };
  };
  const end = (later: string) => endNow?.(refusal(503, 'UNAVAILABLE', later));
  const entered = barrier.enter({ owner, repository, end });
  return entered instanceof Promise ? entered.then(letIn) : letIn(entered);
}
