/** Proxies in front of the platform, as the operator names them. */
import type { FrontProxies } from '../../transports/gateway/listeners.ts';
import { parseTrusted } from '../../transports/wire/peer-address.ts';
import { CliError } from './cli-error.ts';
import type { Environment } from './config.ts';

/** Of `--trusted-proxies` (else TRUSTED_PROXIES) and `--proxy-protocol`; undefined: none. Throws CliError. */
export function proxiesOf(
  options: { readonly trustedProxies?: string | undefined; readonly proxyProtocol?: boolean },
  environment: Pick<Environment, 'TRUSTED_PROXIES'>,
): FrontProxies | undefined {
  const list = options.trustedProxies ?? environment.TRUSTED_PROXIES;
  if (list === undefined) {
    if (options.proxyProtocol)
      throw new CliError('--proxy-protocol needs --trusted-proxies: the addresses that the headers may come from.');
    return undefined;
  }
  const isTrusted = parseTrusted(list);
  if (isTrusted === undefined)
    throw new CliError(
      `--trusted-proxies is ${list}, but must be addresses or networks such as 10.0.0.0/8, separated by commas.`,
    );
  return { isTrusted, sendHeader: options.proxyProtocol === true };
}
