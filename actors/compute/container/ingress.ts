/** Ingress rules of a container: what its actor answers about them. The gateway reads the rules themselves. */
import { clientNetworkOf } from '../../../proto/client-network.ts';
import {
  addIngress,
  changeIngress,
  deleteIngress,
  forgetAnswers,
  type IngressView,
  listIngress,
} from '../../../proto/compute/settings.ts';
import { Refusal } from '../../../proto/errors.ts';
import { shownCache } from '../../../proto/gateway/cache-mode.ts';
import { audit } from '../../../storage/audit.ts';
import { deleteRule, type IngressRow, insertRule, listRules, setRuleCache } from '../../../storage/compute/ingress.ts';
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
export function ingressHandlers({ db, passwords, takenPorts = [] }: ComputeDeps): readonly Handler<ActiveContainer>[] {
  return [
    handler(listIngress, async ({ state }: ActiveContainer, call) => ({
      rules: (await listRules(db, ownedRow(state, call).id)).map(view),
    })),

    handler(addIngress, async ({ state }: ActiveContainer, call) => {
      const { id } = ownedRow(state, call);
      const { port, target_port, tls, access, password, cache } = call.body;
      // 80 and 443 are what the world calls the gateway's ports for HTTP and HTTPS.
      if (port !== HTTP && port !== HTTPS && takenPorts.includes(port)) {
        throw new Refusal('conflict', { message: `Port ${port} is used by the platform itself: choose another one.` });
      }
      const shown = shownOf({ tls, access, cache });
      const hash = password === undefined ? null : await passwords.hash(password, clientNetworkOf(call.address));
      const reply = await fenced(db, state.lease, async (tx) => {
        const row = found(await insertRule(tx, id, { port, targetPort: target_port, tls, access, cache, hash }));
        if (row === 'duplicate') {
          throw new Refusal('conflict', {
            message: `Port ${port} is open already: close it first (DELETE, or \`troupe port rm NAME ${port}\`).`,
          });
        }
        await audit(tx, auditEntry(call, 'container.ingress.add', id, { port, target_port, ...shown }));
        await tellCompute(tx, { kind: 'ingress', containerId: id });
        return keptReply(tx, call, view(row));
      });
      const { ports } = state.row;
      notePorts(
        state,
        [...ports, { port, target_port, ...shown }].sort((a, b) => a.port - b.port),
      );
      return reply;
    }),

    handler(changeIngress, async ({ state }: ActiveContainer, call) => {
      const { id } = ownedRow(state, call);
      const { port } = call.params;
      const { cache } = call.body;
      const row = await fenced(db, state.lease, async (tx) => {
        const changed = found(await setRuleCache(tx, id, port, cache), () => notOpen(port));
        await audit(tx, auditEntry(call, 'container.ingress.change', id, { port, cache }));
        await tellCompute(tx, { kind: 'ingress', containerId: id });
        return changed;
      });
      notePorts(
        state,
        state.row.ports.map((rule) => (rule.port === port ? portOf(row) : rule)),
      );
      return view(row);
    }),

    handler(deleteIngress, async ({ state }: ActiveContainer, call) => {
      const { id } = ownedRow(state, call);
      const { port } = call.params;
      await fenced(db, state.lease, async (tx) => {
        if (!(await deleteRule(tx, id, port))) throw notOpen(port);
        await audit(tx, auditEntry(call, 'container.ingress.remove', id, { port }));
        await tellCompute(tx, { kind: 'ingress', containerId: id });
      });
      notePorts(
        state,
        state.row.ports.filter((rule) => rule.port !== port),
      );
      return { status: 'ok' as const };
    }),

    handler(forgetAnswers, async ({ state }: ActiveContainer, call) => {
      const { id, status } = ownedRow(state, call);
      // Gateways forget them whenever a container is said to be what it is.
      await tellCompute(db, { kind: 'status', containerId: id, status });
      return { status: 'ok' as const };
    }),
  ];
}

function notePorts(state: ContainerActorState, ports: ActiveContainer['state']['row']['ports']): void {
  state.row = { ...state.row, ports, httpsEnabled: ports.some(({ port }) => port === HTTPS) };
}

/**
 * What is shown of who ends TLS, of who gets through, and of what gateways keep: nothing, where it is the container,
 * everybody, and what they keep by default.
 */
function shownOf({ tls, access, cache }: Pick<IngressRow, 'tls' | 'access' | 'cache'>): {
  tls?: 'platform';
  access?: 'password' | 'mine';
  cache?: 'explicit' | 'off';
} {
  return { ...(tls === 'platform' ? { tls } : {}), ...(access === 'public' ? {} : { access }), ...shownCache(cache) };
}

/** A rule among those of its container. */
function portOf(row: IngressRow): ContainerActorState['row']['ports'][number] {
  return { port: row.port, target_port: row.targetPort, ...shownOf(row) };
}

const notOpen = (port: number) =>
  new Refusal('not_found', { message: `Port ${port} is not open: \`troupe port ls NAME\` shows which are.` });

function view(row: IngressRow): IngressView {
  const { id, port, targetPort, createdAt } = row;
  return { id, port, target_port: targetPort, ...shownOf(row), created_at: Math.floor(createdAt.getTime() / 1000) };
}
