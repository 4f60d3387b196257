/** `troupe address ls`: the readable names of one's containers, and those that one gave up. */
import { type ClientCommandOptions, openSession } from './session.ts';

const NONE = 'You have no readable address: `troupe update CONTAINER --address NAME` gives one.';

/** Lists them. */
export async function listAddressNames(options: ClientCommandOptions): Promise<void> {
  const { client, out } = openSession(options);
  const [answer, { containers }] = await Promise.all([client.call('listAddressNames'), client.call('listContainers')]);
  const nameOf = (id: string) => containers.find((container) => container.id === id)?.name ?? id;
  const rows = answer.address_names.map(({ name, container_id, reserved_until = '' }) => [
    container_id === undefined ? '' : nameOf(container_id),
    reserved_until,
    name,
  ]);
  out.table(answer, ['CONTAINER', 'RESERVED UNTIL', 'NAME'], rows, NONE);
}
