/** Ingress rules of a container: what its actor answers about them. The gateway reads the rules themselves. */
import { addIngress, deleteIngress, type IngressView, listIngress } from '../../../proto/compute/settings.ts';
import { Refusal } from '../../../proto/errors.ts';
import { audit } from '../../../storage/audit.ts';
import { deleteRule, type IngressRow, insertRule, listRules } from '../../../storage/compute/ingress.ts';
import { tellCompute } from '../../../storage/compute/news.ts';
import { fenced } from '../../../storage/fenced.ts';
import { auditEntry } from '../../service/audit.ts';
import { found, type Handler, handler } from '../../service/dispatch.ts';
import { keptReply } from '../../service/kept.ts';
import type { ComputeDeps } from '../deps.ts';
import { type ActiveContainer, type ContainerActorState, ownedRow } from './state.ts';

const HTTP = 80;
const HTTPS = 443;

/** The handlers. */
export function ingressHandlers({ db, takenPorts = [] }: ComputeDeps): readonly Handler<ActiveContainer>[] {
  return [
    handler(listIngress, async ({ state }: ActiveContainer, call) => ({
      rules: (await listRules(db, ownedRow(state, call).id)).map(view),
    })),

    handler(addIngress, async ({ state }: ActiveContainer, call) => {
      const { id } = ownedRow(state, call);
      const { port, target_port, tls } = call.body;
      // 80 and 443 are what the world calls the gateway's ports for HTTP and HTTPS.
      if (port !== HTTP && port !== HTTPS && takenPorts.includes(port)) {
        throw new Refusal('conflict', { message: `Port ${port} is used by the platform itself: choose another one.` });
      }
      const ended = endedBy(tls);
      const reply = await fenced(db, state.lease, async (tx) => {
        const row = found(await insertRule(tx, id, { port, targetPort: target_port, tls }));
        if (row === 'duplicate') {
          throw new Refusal('conflict', { message: `Port ${port} has a rule already: remove it first.` });
        }
        await audit(tx, auditEntry(call, 'container.ingress.add', id, { port, target_port, ...ended }));
        await tellCompute(tx, { kind: 'ingress', containerId: id });
        return keptReply(tx, call, view(row));
      });
      const { ports } = state.row;
      notePorts(
        state,
        [...ports, { port, target_port, ...ended }].sort((a, b) => a.port - b.port),
      );
      return reply;
    }),

    handler(deleteIngress, async ({ state }: ActiveContainer, call) => {
      const { id } = ownedRow(state, call);
      const { port } = call.params;
      await fenced(db, state.lease, async (tx) => {
        if (!(await deleteRule(tx, id, port))) {
          throw new Refusal('not_found', { message: `There is no rule for port ${port}.` });
        }
        await audit(tx, auditEntry(call, 'container.ingress.remove', id, { port }));
        await tellCompute(tx, { kind: 'ingress', containerId: id });
      });
      notePorts(
        state,
        state.row.ports.filter((rule) => rule.port !== port),
      );
      return { status: 'ok' as const };
    }),
  ];
}

function notePorts(state: ContainerActorState, ports: ActiveContainer['state']['row']['ports']): void {
  state.row = { ...state.row, ports, httpsEnabled: ports.some(({ port }) => port === HTTPS) };
}

/** What is shown of who ends TLS: nothing, where it is the container. */
function endedBy(tls: IngressRow['tls']): { tls?: 'platform' } {
  return tls === 'platform' ? { tls } : {};
}

function view({ id, port, targetPort, tls, createdAt }: IngressRow): IngressView {
  return { id, port, target_port: targetPort, ...endedBy(tls), created_at: Math.floor(createdAt.getTime() / 1000) };
}
