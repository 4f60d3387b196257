/** A registry that runs beside the platform and has its name, as the one of deploy/kubernetes does. */
import type { HostedRegistry, LocalRegistry } from '../../../proto/ports/local-registry.ts';
import type { Log } from '../../../proto/ports/log.ts';
import { registryHostOf } from '../../../proto/service-paths.ts';
import { CliError } from '../../config/cli-error.ts';
import type { Environment } from '../../config/config.ts';
import { askFront } from './front/questions.ts';

/** What the platform is told of it. */
interface RegistryBeside extends LocalRegistry, Partial<HostedRegistry> {
  /** The environment that attaches it to the platform. */
  readonly environment: Environment;
}

/**
 * The one that REGISTRY_ADDRESS names; undefined without. Throws CliError for a name of another, and without the key
 * that signs its tokens.
 */
export function registryBeside(environment: Environment, domain: string, log: Log): RegistryBeside | undefined {
  const { REGISTRY_ADDRESS: address, REGISTRY_HOST: named, REGISTRY_SIGNING_KEY: key } = environment;
  const { REGISTRY_FRONT: front } = environment;
  if (address === undefined && front !== 'none') {
    throw new CliError(
      `REGISTRY_FRONT is ${front}, and REGISTRY_ADDRESS is not set: set it to the address of the registry front, or ` +
        'leave both out.',
    );
  }
  if (address === undefined) return undefined;
  const host = registryHostOf(domain);
  if (named !== undefined && named !== host) {
    throw new CliError(
      `REGISTRY_ADDRESS is for a registry that has the platform's name, ${host}, and REGISTRY_HOST names ${named}: ` +
        'leave one of them out.',
    );
  }
  if (key === undefined) {
    throw new CliError(
      'REGISTRY_ADDRESS names a registry, and REGISTRY_SIGNING_KEY is not set: nobody could log in there. Set it to ' +
        "the key whose certificate the registry's rootcertbundle has.",
    );
  }
  const beside = { host, address, environment: { ...environment, REGISTRY_HOST: host } };
  if (front === 'none') return beside;
  const { room, usage } = askFront({ address, host, key, log });
  // A bucket always has room.
  return { ...beside, ...(front === 'store' ? { room } : {}), usage, asksHolders: true };
}
