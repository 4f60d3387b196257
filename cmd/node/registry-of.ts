/** The image registry as REGISTRY_HOST and its key name it. */
import { registrySigner } from '../../actors/auth/registry/registry-key.ts';
import type { Db } from '../../storage/db.ts';
import type { Environment } from '../config/config.ts';

/** What services are told of it. Throws as `registrySigner`. */
export async function registryOf(environment: Environment, db: Db) {
  const { REGISTRY_HOST: service, REGISTRY_ISSUER: issuer, REGISTRY_SIGNING_KEY: key } = environment;
  return { service, issuer, signer: key === undefined ? undefined : await registrySigner(db, key) };
}
