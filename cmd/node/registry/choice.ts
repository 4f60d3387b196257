import type { Environment } from '../../config/config.ts';

/**
 * Why `up` runs no registry with these settings, as the end of "no image registry is run: ..."; undefined when it may
 * run one. `dockerHost`: the engine, which has to reach this machine's loopback.
 */
export function whyNoRegistry(environment: Environment, dockerHost: string | undefined): string | undefined {
  if (environment.REGISTRY === 'off') return 'REGISTRY is off';
  if (environment.REGISTRY_ADDRESS !== undefined) return `the one at ${environment.REGISTRY_ADDRESS} is used`;
  if (environment.REGISTRY_HOST !== undefined) return `REGISTRY_HOST names ${environment.REGISTRY_HOST}`;
  if (environment.REGISTRY_SIGNING_KEY !== undefined) return 'REGISTRY_SIGNING_KEY is for one of yours';
  if (environment.COMPUTE_ENGINE !== 'docker') return 'the nodes of a cluster would not reach it';
  if (environment.NATS_URL !== undefined) return 'other nodes of the platform would not reach it';
  if (dockerHost?.startsWith('unix://') === false) return 'the Docker Engine is on another machine';
  return undefined;
}
