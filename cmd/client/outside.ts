/** Where what is open of a container is reached, as commands print it. */
import { addressOfPort, type OpenPort, type Outlook, TroupeError } from '../../client/index.ts';
import type { CommandPlace, OpenedClient } from './place.ts';

/** From where containers are called here. A platform that does not tell its ports is taken to have the usual ones. */
export async function outlookOf({ client, profile }: OpenedClient, place: CommandPlace): Promise<Outlook> {
  // By SSH nobody called an address.
  const page = place.machine === undefined ? undefined : new URL(profile.url);
  try {
    const { ports } = await client.call('showPlatformFacts');
    return { page, gateway: ports };
  } catch (error) {
    if (error instanceof TroupeError && [403, 404].includes(error.status)) return { page, gateway: undefined };
    throw error;
  }
}

/** An address that browsers open, or else host and port. */
export function outsideOf(rule: OpenPort, hostname: string, from: Outlook): string {
  return addressOfPort(hostname, rule, from) ?? `${hostname}:${rule.port}`;
}

/** The address of the page of a container; undefined without a port. */
export function pageOf(rules: readonly OpenPort[], hostname: string, from: Outlook): string | undefined {
  const rule = rules.find(({ port }) => port === 443) ?? rules.find(({ port }) => port === 80) ?? rules[0];
  return rule && (addressOfPort(hostname, rule, from) ?? `http://${hostname}:${rule.port}/`);
}
