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

/**
 * The domain for which pages of containers can set cookies that the platform gets, too: that above both. Undefined
 * where there is none, and where all is on this machine. A top-level domain is none: browsers take no cookies for it.
 */
export function sharedCookieDomain(domain: string, containers: string): string | undefined {
  const [own, theirs] = [domain, containers].map((name) => name.toLowerCase().split('.').reverse());
  if (own === undefined || theirs === undefined || own[0] === 'localhost') return undefined;
  const at = own.findIndex((label, index) => theirs[index] !== label);
  const shared = at === -1 ? own : own.slice(0, at);
  return shared.length < 2 ? undefined : shared.reverse().join('.');
}
