/** Lets the owner in through an ingress rule that is for the owner alone: an entry, which the gateway takes once. */
import { enterIngress } from '../../../proto/compute/settings.ts';
import { Refusal } from '../../../proto/errors.ts';
import { ENTRY_PARAMETER, ENTRY_PATH } from '../../../proto/gateway/port-guard.ts';
import { ruleForEntry } from '../../../storage/compute/ingress.ts';
import { type Handler, handler } from '../../service/dispatch.ts';
import type { ComputeDeps } from '../deps.ts';
import { hostnameOf } from '../views.ts';
import { type ActiveContainer, ownedRow } from './state.ts';

/**
 * Answers with the address of an entry. Entries are not stored: they live for a minute, and say themselves for which
 * rule and host they are. The host is one that leads to this very container, so nobody is sent elsewhere.
 */
export function entryHandler({ db, accessProofs, containersDomain }: ComputeDeps): Handler<ActiveContainer> {
  return handler(enterIngress, async ({ state }: ActiveContainer, call) => {
    const { id, addressName } = ownedRow(state, call);
    const { port } = call.params;
    const found = await ruleForEntry(db, id, port);
    if (found === undefined)
      throw new Refusal('not_found', { message: `Port ${port} is not open: \`troupe port ls NAME\` shows which are.` });
    const { rule, hostnames, now } = found;
    if (rule.access !== 'mine')
      throw new Refusal('conflict', {
        message: `Port ${port} does not have access "mine": open its address, with its password if it has one.`,
      });
    const own = hostnameOf(id, containersDomain);
    const { host = own, path } = call.body;
    const isOwn = host === own || (addressName !== null && host === hostnameOf(addressName, containersDomain));
    if (!isOwn && !hostnames.includes(host)) {
      const message = 'must be the hostname of the container, or a verified one of yours that leads to this port';
      throw new Refusal('invalid_request', { message: `host ${message}.`, fields: [{ path: 'host', message }] });
    }
    const { token, end } = accessProofs.entry({ containerId: id, port, rule: rule.id, hash: null }, host, path, now);
    // Mapped hostnames are served on the ports of the gateway itself.
    const at = isOwn && port !== 443 ? `:${port}` : '';
    const url = `https://${host}${at}${ENTRY_PATH}?${ENTRY_PARAMETER}=${token}`;
    return { url, expires_at: new Date(end).toISOString() };
  });
}
