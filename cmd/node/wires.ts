/** What the connections of a service go by: the handles of Node.js where they pass a trial, else its public streams. */
import type { Log } from '../../proto/ports/log.ts';
import { handlesFail } from '../../transports/wire/trial.ts';
import { useWires } from '../../transports/wire/wires.ts';
import type { Environment } from '../config/config.ts';

/** To be called before the process listens. A warning says why handles are not used. */
export async function chooseWires({ GATEWAY_IO }: Pick<Environment, 'GATEWAY_IO'>, log: Log): Promise<void> {
  if (GATEWAY_IO === 'streams') {
    useWires('stream');
    return;
  }
  const failure = await handlesFail();
  if (failure === undefined) return;
  useWires('stream');
  log.warn(
    { node: process.versions.node, failure },
    'connections go by streams, which are slower: the handles of this Node.js fail their trial',
  );
}
