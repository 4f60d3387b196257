/** How people say, and read, how it is known that a container is well. */
import type { CallInput, Container } from '../../client/index.ts';
import { ClientFailure } from './failure.ts';
import type { ClientSession } from './session.ts';

/** Options of `troupe run` and `troupe update`. */
export interface HealthOptions {
  readonly health?: string;
  readonly healthCommand?: string;
  readonly healthGrace?: number;
}

type HealthSetting = CallInput<'createContainer'>['body']['health'];

const CHECK = /^(?:http:([0-9]{1,5})(\/\S*)?|tcp:([0-9]{1,5}))$/;

/** The check that the options name; null: none; undefined: they say nothing of it. Throws ClientFailure. */
export function healthOf({ health, healthCommand, healthGrace }: HealthOptions): HealthSetting {
  const grace = healthGrace === undefined ? {} : { grace: healthGrace };
  if (health !== undefined && healthCommand !== undefined)
    throw new ClientFailure('usage', 'Say --health or --health-command: a container has one check.');
  // A command line, as people write one.
  if (healthCommand !== undefined) return { command: ['/bin/sh', '-c', healthCommand], ...grace };
  if (health === undefined) {
    if (healthGrace === undefined) return undefined;
    throw new ClientFailure('usage', 'Say with --health-grace what is looked at: --health or --health-command.');
  }
  if (health === 'none') return null;
  const [all, http, path, tcp] = CHECK.exec(health) ?? [];
  if (all === undefined)
    throw new ClientFailure('usage', `--health is such as http:8080/healthz, tcp:5432 or none, not ${health}.`);
  if (http === undefined) return { tcp: { port: Number(tcp) }, ...grace };
  return { http: { port: Number(http), ...(path === undefined ? {} : { path }) }, ...grace };
}

/** Says what is wrong with a container that is not healthy. */
export function noteHealth({ out }: ClientSession, { name, health, health_reason: reason }: Container): void {
  if (health === 'unhealthy' && !out.json) out.note(`${name} is unhealthy. ${reason ?? ''}`);
}
