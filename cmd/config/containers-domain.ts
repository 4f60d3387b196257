/** The domain whose names lead to containers. */
import { SERVICE_NAMES, serviceHost } from '../../proto/service-paths.ts';
import { CliError } from './cli-error.ts';
import { DEFAULT_DOMAIN, type Environment } from './config.ts';

/**
 * `<id>.<this>` is a container: CONTAINERS_DOMAIN, else `compute.` before the platform's domain; in lower case. Throws
 * CliError where names of containers would be names of the platform.
 */
export function containersDomain(
  { CONTAINERS_DOMAIN: given }: { readonly CONTAINERS_DOMAIN?: string | undefined },
  platformDomain: string,
): string {
  const domain = platformDomain.toLowerCase();
  const usual = `compute.${domain}`;
  if (given === undefined || given === usual) return usual;
  const isParent = domain === given || domain.endsWith(`.${given}`);
  if (isParent || SERVICE_NAMES.some((name) => serviceHost(name, domain) === given))
    throw new CliError(`CONTAINERS_DOMAIN must have no name of the platform in it, as ${given} has: ${domain}.`);
  return given;
}

/** The platform's domain, as an option or the environment says, and that of containers. Throws CliError. */
export function domainsOf(
  given: string | undefined,
  environment: Pick<Environment, 'PLATFORM_DOMAIN' | 'CONTAINERS_DOMAIN'>,
): { readonly domain: string; readonly containers: string } {
  const domain = given ?? environment.PLATFORM_DOMAIN ?? DEFAULT_DOMAIN;
  return { domain, containers: containersDomain(environment, domain) };
}
