/** What compute is given of the image registry. */
import { registryRights } from '../../actors/auth/registry/registry-rights.ts';
import { registryCatalog } from '../../transports/clients/registry/catalog.ts';

/** Rights to pull with, and the list of what there is; nothing without a registry. */
export function partsOfRegistry(deps: Parameters<typeof registryRights>[0], host: string | undefined) {
  if (host === undefined) return {};
  const { auth, mayPull, ownToken } = registryRights(deps, host);
  return { registryAuth: auth, catalog: registryCatalog({ host, token: ownToken, mayPull }), mayPull };
}
